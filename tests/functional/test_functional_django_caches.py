"""Django's own tests of its cache backends, with poorhttp.cache.django.SharedCache in the place of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # `conformance` is no part of the installed package

pytest.importorskip("django")

from conformance.functional import suites  # noqa: E402

TESTS = """
import os, sys, unittest
os.environ["RUNNING_DJANGOS_TEST_SUITE"] = "true"
directory, location, pickle = sys.argv[1:]
sys.path.insert(0, directory)
import django
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["cache"], SECRET_KEY="for the test", USE_TZ=False,
)
django.setup()
from cache.tests import BaseCacheTests, caches_setting_for_tests
from django.test import TestCase, override_settings
from django.test.runner import DiscoverRunner

options = {"size": 8 << 20, "pickle": pickle == "pickle"}
base = {"BACKEND": "poorhttp.cache.django.SharedCache", "LOCATION": location, "OPTIONS": options}

@override_settings(CACHES=caches_setting_for_tests(base=base, exclude={"cull", "zero_cull"}))
class SharedCacheTests(BaseCacheTests, TestCase):
    test_cull = test_zero_cull = None  # what is thrown away depends on bytes, not on a number of entries

if not options["pickle"]:
    for name in (
        "add_fail_on_pickleerror", "set_fail_on_pickleerror", "cache_read_for_model_instance",
        "cache_read_for_model_instance_with_deferred", "cache_write_for_model_instance_with_deferred",
        "cache_write_unpicklable_object", "data_types",
    ):
        setattr(SharedCacheTests, f"test_{name}", None)

runner = DiscoverRunner(verbosity=0, interactive=False)
runner.setup_test_environment()
databases = runner.setup_databases()
result = runner.run_suite(unittest.defaultTestLoader.loadTestsFromTestCase(SharedCacheTests))
runner.teardown_databases(databases)
print(result.testsRun, len(result.failures), len(result.errors))
"""


@pytest.mark.timeout(suites.PATIENCE)  # the archives may have to be fetched
@pytest.mark.parametrize(("values", "least"), [("pickle", 50), ("json", 45)])
def test_the_tests_of_every_backend_pass(values: str, least: int, tmp_path: Path) -> None:
    try:
        unpacked = suites.fetch()
    except suites.Unavailable as error:
        pytest.skip(f"no suite: {error}")
    directory = unpacked / suites.SUITES["django"].home
    command = [sys.executable, "-c", TESTS, str(directory), str(tmp_path / "cache"), values]
    done = subprocess.run(command, capture_output=True, text=True, timeout=58, check=False)
    assert done.returncode == 0, done.stderr
    run, failures, errors = map(int, done.stdout.split())
    assert (failures, errors) == (0, 0) and run >= least, done.stderr
