"""The walls between the parts, held by reading import lines: imports point one way (ARCHITECTURE.md).

Knows the names of the parts and what each may know of the others; runs nothing but the parser, and one interpreter to
see what a serving process has imported.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = sorted((ROOT / "poorhttp").rglob("*.py"))
RUST = sorted((ROOT / "src").rglob("*.rs"))

# What a serving process imports, whatever its settings.
SERVING = [
    "__init__",
    "cli",
    "errors",
    "stdlib",
    "app.callables",
    "app.failures",
    "app.loader",
    "app.places",
    "config.addresses",
    "config.commands",
    "config.flags",
    "config.given",
    "config.ini",
    "config.model",
    "config.paths",
    "config.reading",
    "config.settings",
    "config.units",
    "config.urls",
    "listen.backlog",
    "listen.port_owner",
    "listen.sockets",
    "listen.systemd",
    "listen.unix_sockets",
    "logs.log",
    "pages.document",
    "process.start.facts",
    "process.fork_hooks",
    "process.serving.leaving",
    "process.start.listening",
    "process.start.loading",
    "process.start.log_files",
    "process.start.origin",
    "process.serving.unsupervised_reload",
    "process.workers.plan",
    "process.server",
    "process.serving.serving_signals",
    "process.shape",
    "process.workers.sizing",
    "process.workers.supervised_reload",
    "process.supervisor",
    "process.workers.supervisor_signals",
    "process.worker",
    "process.workers.pipes",
    "process.workers.processes",
    "status.calls",
    "status.layout",
    "status.pidfile",
    "status.scoreboard",
]
HEAVY = {
    "argparse",
    "ast",
    "collections",
    "configparser",
    "contextlib",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "html",
    "importlib.metadata",
    "inspect",
    "json",
    "logging",
    "multiprocessing",
    "pathlib",
    "random",
    "re",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "traceback",
    "typing",
    "unittest",
    "urllib",
    "wsgiref",
}

# Each part may import those before it, not its neighbours in a row, and never one that comes later.
LAYERS = [
    {"stdlib", "pages"},
    {"errors"},
    {"system"},
    {"config"},
    {"app", "listen", "logs", "status"},
    {"reload"},
    {"process"},
    {"operate"},
    {"dev"},
    {"cli"},
    {"__main__"},
]
KNOWS = {part: set().union(*LAYERS[:number]) | {part} for number, row in enumerate(LAYERS) for part in row}
KNOWS["operate"] -= {"reload"}
KNOWS["app"] |= {"dispatch", "_engine"}  # a table is served by the dispatcher; an answer is checked by the engine
KNOWS["operate"] |= {"sessions"}  # `poorhttp sessions purge`
KNOWS["process"] |= {"dev", "_engine"}  # error pages, where `debug` asks for them; the engine, which serves
KNOWS["system"] |= {"_engine"}  # what the kernel does when a parent dies; handlers that the engine calls


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(path: Path, *, everywhere: bool) -> set[str]:
    """Dotted names that `path` imports: at its top (what loading it costs), or everywhere (what it knows).

    What only a type checker sees is not counted.
    """
    found: set[str] = set()
    package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])

    def visit(node: ast.AST) -> None:
        if is_type_checking(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not everywhere:
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{module}.{alias.name}" for alias in node.names)
            found.add(module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return {name for name in found if name.split(".")[0] != "__future__"}


def parts_of(imports: set[str]) -> set[str]:
    """The parts of poorhttp among dotted names: folders and the modules beside them."""
    known = {path.stem for path in (ROOT / "poorhttp").iterdir()}
    parts = (name.split(".") for name in imports)
    return {part[1] for part in parts if part[0] == "poorhttp" and len(part) > 1 and part[1] in known}


def code_of(path: Path) -> str:
    """Rust without comments and without its tests."""
    text = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    return re.sub(r"//[^\n]*", "", text)


# ---------------------------------------------------------------------------------------------------------- Python


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_python_modules_open_with_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", sorted((ROOT / "poorhttp" / "dispatch").rglob("*.py")), ids=name_of)
def test_dispatch_imports_nothing_of_the_server(path: Path) -> None:
    """It must run under any WSGI server, without the compiled engine, of which it takes two classes where it is loaded already."""
    known = {name for name in imports_of(path, everywhere=True) if name.split(".")[0] == "poorhttp"}
    if path.name in ("answer.py", "contained.py"):
        known -= {"poorhttp._engine", "poorhttp._engine.HeldBody", "poorhttp._engine.OpenFile"}
    ours = known - {"poorhttp", "poorhttp.__version__"}
    assert all(name.startswith(("poorhttp.dispatch", "poorhttp.pages.")) for name in ours), known


@pytest.mark.parametrize("path", sorted((ROOT / "poorhttp" / "sessions").rglob("*.py")), ids=name_of)
def test_sessions_import_nothing_but_themselves_and_python(path: Path) -> None:
    """They run under any WSGI server. Only the module of a store imports a client library."""
    known = imports_of(path, everywhere=True)
    ours = {name for name in known if name.split(".")[0] == "poorhttp"}
    if path.name == "shared_cache.py":
        known = {name for name in known if not f"{name}.".startswith("poorhttp.cache.")}
        ours &= known
    assert all(f"{name}.".startswith("poorhttp.sessions.") for name in ours - {"poorhttp"}), ours
    others = {name.split(".")[0] for name in known - ours} - sys.stdlib_module_names
    assert not others or path.parent.name == "stores"
    assert not {"pickle", "marshal", "shelve"} & {name.split(".")[0] for name in known}


@pytest.mark.parametrize("path", sorted((ROOT / "poorhttp" / "cache").rglob("*.py")), ids=name_of)
def test_the_cache_imports_nothing_but_the_engine_and_python(path: Path) -> None:
    """It works under any WSGI server. Only the module for Django imports Django."""
    known = imports_of(path, everywhere=True)
    ours = {name for name in known if name.split(".")[0] == "poorhttp"}
    assert all(f"{name}.".startswith(("poorhttp.cache.", "poorhttp._engine.")) for name in ours - {"poorhttp"}), ours
    others = {name.split(".")[0] for name in known - ours} - sys.stdlib_module_names
    assert others == ({"django"} if path.name == "django.py" else set())
    assert "pickle" not in known or path.name == "cache.py"


def test_the_cache_costs_a_worker_no_library_that_it_seldom_needs() -> None:
    """pickle takes 0.3 MB of memory, hashlib 0.6 and secrets 0.3."""
    assert not {"pickle", "hashlib", "secrets"} & set(run("import sys, poorhttp.cache; print(*sys.modules)").split())


def test_sessions_import_without_the_engine_and_any_client_library() -> None:
    libraries = ("redis", "pymemcache", "psycopg", "pymysql", "pymongo", "bson", "diskcache", "poorhttp._engine")
    hidden = f"import sys; sys.modules.update(dict.fromkeys({libraries!r}))"
    own = [f"{kind}:/tmp/none" for kind in ("file", "directory", "sqlite")]
    code = f"{hidden}; from poorhttp.sessions import open_store; [open_store(each) for each in {['memory:', *own]!r}]"
    run(code)


def test_dispatch_imports_in_an_interpreter_without_the_engine() -> None:
    code = "import sys; sys.modules['poorhttp._engine'] = None; import poorhttp.dispatch, poorhttp.http; print(*sys.modules)"
    modules = run(code).split()
    assert not {
        "poorhttp.cli",
        "poorhttp.config.reading",
        "poorhttp.process.worker",
        "poorhttp.process.supervisor",
    } & set(modules)


def test_plan_imports_nothing_that_acts() -> None:
    assert imports_of(ROOT / "poorhttp" / "process" / "workers" / "plan.py", everywhere=True) <= {
        "poorhttp.system",
        "poorhttp.system.timing",
    }


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    """Also those within functions."""
    part = path.relative_to(ROOT / "poorhttp").with_suffix("").parts[0]
    if part not in ("__init__", "cache", "dispatch", "http", "sessions"):
        assert parts_of(imports_of(path, everywhere=True)) <= KNOWS[part]


def test_no_modules_import_each_other() -> None:
    """Neither two, nor more in a circle; also within functions. `__init__` imports nobody before it is asked."""
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PYTHON}
    imported = {name: imports_of(path, everywhere=True) & set(known) - {name} for name, path in known.items()}
    while free := {name for name, others in imported.items() if not others & set(imported)}:
        imported = {name: others for name, others in imported.items() if name not in free}
    assert not imported


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_only_the_entry_knows_development(path: Path) -> None:
    """And does not import it before it is asked for: a server in production has nothing of it."""
    if "/dev/" not in name_of(path):
        known = {name for name in imports_of(path, everywhere=True) if f"{name}.".startswith("poorhttp.dev.")}
        assert not known or name_of(path) in (
            "poorhttp/cli.py",
            "poorhttp/process/start/loading.py",
            "poorhttp/process/server.py",
        )
        assert not {name for name in imports_of(path, everywhere=False) if f"{name}.".startswith("poorhttp.dev.")}


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_only_modules_that_serve_check_or_fork_know_the_engine(path: Path) -> None:
    if name_of(path) not in (
        "poorhttp/app/question.py",
        "poorhttp/cache/cache.py",
        "poorhttp/cache/file.py",
        "poorhttp/process/serving/serving_signals.py",
        "poorhttp/process/worker.py",
        "poorhttp/process/workers/immortal.py",
        "poorhttp/system/exits.py",
        "poorhttp/system/signals.py",
        "poorhttp/__init__.py",
        "poorhttp/dispatch/answer.py",
        "poorhttp/dispatch/contained.py",
    ):
        assert "_engine" not in parts_of(imports_of(path, everywhere=True))


@pytest.mark.parametrize("module", SERVING)
def test_serving_modules_import_nothing_heavy(module: str) -> None:
    path = ROOT / "poorhttp" / f"{module.replace('.', '/')}.py"
    found = {name for name in imports_of(path, everywhere=False) if name.split(".")[0] != "poorhttp"}
    assert not {name for name in found if name in HEAVY or name.split(".")[0] in HEAVY}


def test_a_serving_process_has_imported_nothing_heavy() -> None:
    """Also not by way of others: what is there beyond a bare interpreter of the same environment."""
    modules = ", ".join(f"poorhttp.{module}" for module in SERVING if module != "__init__")
    bare, serving = (
        set(json.loads(run(f"import sys{rest}; loaded = sorted(sys.modules); import json; print(json.dumps(loaded))")))
        for rest in ("", f", poorhttp, {modules}")
    )
    assert not (serving - bare) & HEAVY
    assert not {name for name in serving if name.startswith("poorhttp.sessions")}


# What an application may replace, or would have to import late: `poorhttp.stdlib` has it for everybody.
REPLACED = {"_signal", "_socket", "_thread", "os", "select", "signal", "socket", "subprocess", "threading", "time"}

# Part of every interpreter, or imported by it at its start: no file can take their names.
ALWAYS = {"__future__", "atexit", "builtins", "codecs", "errno", "gc", "io", "itertools", "marshal", "stat", "sys"}

# Imports of other modules of Python that could find one of the application's, as they may come after it was loaded ->
# why they do not.
BEFORE_THE_APPLICATION = {
    "poorhttp/__init__.py: importlib": "asked for by whoever imports poorhttp",
    "poorhttp/operate/background.py: contextlib": "a command about a server",
    "poorhttp/dev/page/live.py: socket": "imported before the application by the processes that load one",
    "poorhttp/dev/ahead/preload.py: importlib": "part of the interpreter",
    "poorhttp/pages/audience.py: ipaddress": "imported with `dev`, else by the dispatcher, which is the application's",
    "poorhttp/pages/audience.py: re": "the same",
    "poorhttp/pages/redaction.py: re": "the same",
    "poorhttp/logs/program.py: fcntl": "when logs are opened",
    "poorhttp/logs/program.py: shlex": "when logs are opened",
    "poorhttp/process/pid1.py: os": "PID 1 loads no application",
    "poorhttp/process/pid1.py: time": "PID 1 loads no application",
    "poorhttp/system/privileges.py: grp": "when users are looked up",
    "poorhttp/system/privileges.py: pwd": "when users are looked up",
    "poorhttp/app/question.py: types": "before the load",
    "poorhttp/app/question.py: wsgiref": "before the load",
    "poorhttp/reload/bytecode.py: importlib": "the begin of a trial, and of a new program",
    "poorhttp/process/start/loading.py: time": "the application's, right before the load",
    "poorhttp/process/start/dry_run_child.py: contextlib": "a command, or a trial",
    "poorhttp/process/start/dry_run_child.py: faulthandler": "right before the load, in a child",
    "poorhttp/process/start/dry_run_child.py: mmap": "right before the load",
    "poorhttp/config/paths.py: shlex": "when the configuration is read",
    "poorhttp/operate/watch.py: contextlib": "a command about a server",
}


def test_modules_of_python_that_are_needed_late_come_from_one_place() -> None:
    """Else they could be replaced, or hidden by modules of the application. `dev` is imported before any application:
    there it is only asked what is imported within functions, or may be replaced.
    """
    found = set()
    for path in PYTHON:
        name = name_of(path)
        if (
            "/dispatch/" in name
            or "/sessions/" in name
            or "/cache/" in name
            or name in ("poorhttp/http.py", "poorhttp/stdlib.py", "poorhttp/system/moved.py")
        ):
            continue  # the application's, the place itself, and no module of the server
        top, all_ = (imports_of(path, everywhere=everywhere) for everywhere in (False, True))
        counted = all_ - top | {each for each in top if "/dev/" not in name or each in REPLACED}
        modules = {each.partition(".")[0] for each in counted} & (sys.stdlib_module_names - ALWAYS)
        found |= {f"{name}: {module}" for module in modules}
    assert found == set(BEFORE_THE_APPLICATION)


@pytest.mark.parametrize("path", sorted((ROOT / "poorhttp" / "pages").rglob("*.py")), ids=name_of)
def test_what_pages_share_knows_nothing_of_the_server(path: Path) -> None:
    assert parts_of(imports_of(path, everywhere=True)) <= {"pages"}


def test_stdlib_imports_nothing_of_the_server() -> None:
    assert not parts_of(imports_of(ROOT / "poorhttp" / "stdlib.py", everywhere=True))


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ----------------------------------------------------------------------------------------------------------- Sizes

FILE, FUNCTION = 400, 60
"""Lines of a file and of a function at most."""

# What is longer -> why it is not split.
LONGER: dict[str, str] = {}


def lengths(path: Path) -> Iterator[tuple[str, int, int]]:
    """A file and its functions: name, lines, lines at most."""
    text = path.read_text(encoding="utf-8")
    yield name_of(path), text.count("\n"), FILE
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name_of(path)}: {node.name}", (node.end_lineno or 0) - node.lineno + 1, FUNCTION
    else:
        # rustfmt closes a function with a brace in the column in which it began.
        for found in re.finditer(r"(?m)^( *)(?:pub(?:\([\w: ]+\))? )?(?:const )?(?:unsafe )?fn (\w+)", text):
            end = re.compile(rf"(?m)^{found[1]}\}}$").search(text, found.end())
            if end:
                yield f"{name_of(path)}: {found[2]}", text.count("\n", found.start(), end.start()) + 1, FUNCTION


def test_files_and_functions_can_be_read_at_one_sitting() -> None:
    found = {name: lines for path in PYTHON + RUST for name, lines, most in lengths(path) if lines > most}
    assert set(found) == set(LONGER), found


# ------------------------------------------------------------------------------------------------------------ Rust


@pytest.mark.parametrize("path", RUST, ids=name_of)
def test_rust_modules_open_with_what_they_know(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("//! ")


@pytest.mark.parametrize("path", RUST, ids=name_of)
def test_the_rust_of_debian_compiles_it(path: Path) -> None:
    """`if a && let Some(b) = c` needs Rust 1.88. clippy finds newer functions, but not this."""
    assert manifest("package").count('rust-version = "1.85"') == 1
    assert not re.search(r"&&\s+let\b", code_of(path))


# What ends a process, or panics where it need not; each is denied in Cargo.toml, outside tests (clippy.toml).
DENIED = ["unwrap_used", "expect_used", "indexing_slicing", "panic"]
# Groups that hold one of them.
GROUPS = ["all", "restriction", "warnings"]


def manifest(section: str) -> str:
    text = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    return text.partition(f"[{section}]\n")[2].partition("\n[")[0]


@pytest.mark.parametrize("lint", DENIED)
def test_the_lints_against_panics_are_denied(lint: str) -> None:
    assert re.search(rf'^{lint} = "deny"$', manifest("lints.clippy"), re.MULTILINE)


# What is static -> why that is no state of a server.
STATIC = {
    "src/http/grammar.rs: CLASSES": "a table that nobody changes",
    "src/net/connections/spool.rs: COUNT": "the count in the name of a temporary file",
}


def test_nothing_is_static() -> None:
    """All state of the engine is inside of it."""
    found = set()
    for path in RUST:
        code = code_of(path)
        found |= {f"{name_of(path)}: {name}" for name in re.findall(r"(?<!')\bstatic (?:mut )?(\w+)\s*:", code)}
        assert not re.search(r"\b(?:thread_local|lazy_static)!|\bstatic mut\b", code), name_of(path)
    assert found == set(STATIC)
    table = code_of(ROOT / "src" / "http" / "grammar.rs")
    assert "static CLASSES: [u8; 256] = classes();" in table


@pytest.mark.parametrize("path", RUST, ids=name_of)
def test_nothing_escapes_the_lints_against_panics(path: Path) -> None:
    code = code_of(path)
    for lints in re.findall(r"\b(?:allow|expect|warn)\s*\(([^)]*)\)", code):
        named = {name.strip().rpartition("::")[2] for name in lints.split(",")}
        assert not named & {*DENIED, *GROUPS}, f"{name_of(path)} allows {lints}"
    # Other ways to the same end, which no lint of these knows.
    assert not re.search(r"\b(?:unreachable|todo|unimplemented|assert|assert_eq|assert_ne)!", code), name_of(path)
    assert not re.search(r"\bprocess::(?:abort|exit)\b|_unchecked\b.*index", code), name_of(path)


def test_tests_end_their_files() -> None:
    """`code_of` takes everything before the tests for all of the code."""
    for path in RUST:
        text = path.read_text(encoding="utf-8")
        assert text.count("#[cfg(test)]") <= 1, name_of(path)
        behind = text.partition("#[cfg(test)]\n")[2]
        assert not behind or re.fullmatch(r"mod tests \{\n(?:(?: .*)?\n)*\}\n", behind), name_of(path)


def test_a_panic_unwinds() -> None:
    """So that it can be caught, and costs one connection: nothing that a build reads turns it into an abort."""
    configured = [ROOT / "Cargo.toml", ROOT / "pyproject.toml", ROOT / "setup.cfg", ROOT / "Makefile"]
    for folder in (".ci", ".cargo", ".github"):
        configured += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in configured:
        assert not re.search(r"panic\s*=\s*\W*abort", path.read_text(encoding="utf-8")), name_of(path)
    guarded = code_of(ROOT / "src" / "net" / "threads" / "server.rs")
    assert "catch_unwind" in guarded


UNICODE = (
    r"\.trim(?:_start|_end)?\(|\.split_whitespace\(|\.lines\(\)|to_(?:lower|upper)case\(|from_utf8_lossy"
    r"|\bis_(?:alphabetic|alphanumeric|numeric|whitespace|control|lowercase|uppercase)\b"
)


@pytest.mark.parametrize("path", sorted((ROOT / "src" / "http").glob("*.rs")), ids=name_of)
def test_nothing_near_the_wire_knows_unicode(path: Path) -> None:
    """Whitespace is SP and HTAB, digits are 0-9, case is that of ASCII (RFC 9110 5.6)."""
    assert not re.search(UNICODE, code_of(path))


REFUSES = re.compile(r"Reject::bad\(|\bReject \{ |Err\(\"|ok_or\(\"")
SECTION = re.compile(r"RFC \d{4}|PEP 3333|\b\d+\.\d+(?:\.\d+)*\b")


def rules_of(path: Path) -> list[str]:
    """The functions of a file, each with the comment before it."""
    text = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    starts = [
        match.start() for match in re.finditer(r"(?m)^(?: *///.*\n)*(?: *#\[.*\n)* *(?:pub )?(?:const )?fn ", text)
    ]
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


@pytest.mark.parametrize("name", ["body", "framing", "head_parser", "response"])
def test_every_refusal_names_its_section(name: str) -> None:
    """Code that refuses a request names the section of the specification that says so."""
    rules = [rule for rule in rules_of(ROOT / "src" / "http" / f"{name}.rs") if REFUSES.search(rule)]
    assert rules
    for rule in rules:
        assert SECTION.search(rule), rule


def test_every_refusal_that_has_a_name_names_its_section() -> None:
    text = (ROOT / "src" / "http" / "reject.rs").read_text(encoding="utf-8")
    named = re.findall(r"((?: *///.*\n)*)    pub const (\w+): Self", text)
    assert len(named) > 8
    for comment, name in named:
        assert SECTION.search(comment), name


# `http` may parse an address (std::net::Ipv6Addr) but knows no socket, no file and no clock.
RUST_WALLS = {
    "http": [
        *("crate::net", "crate::wsgi", "crate::engine", "crate::config", "pyo3", "rustix"),
        *("std::os", "std::fs", "SocketAddr", "TcpStream", "TcpListener", "Instant", "SystemTime::now"),
    ],
    "net": ["crate::wsgi", "crate::engine", "crate::config", "pyo3"],
    "cache": ["crate::net", "crate::wsgi", "crate::http", "crate::engine", "crate::config", "pyo3"],
    "wsgi": ["crate::engine", "crate::config"],
}


@pytest.mark.parametrize("part", sorted(RUST_WALLS))
def test_rust_imports_point_one_way(part: str) -> None:
    for path in sorted((ROOT / "src" / part).rglob("*.rs")):
        code = code_of(path)
        for wall in RUST_WALLS[part]:
            assert not re.search(rf"\b{re.escape(wall)}\b", code), f"{name_of(path)} knows {wall}"


@pytest.mark.parametrize("name", ["limits", "timing"])
def test_limits_and_times_know_nothing(name: str) -> None:
    assert not re.search(r"\bcrate::|\bpyo3\b", code_of(ROOT / "src" / f"{name}.rs"))


# The layers of src/net, the lowest first: a module may know its own layer and those before it. A layer is a folder, some
# files beside the folders, or the files of a folder that know less than the rest of it.
NET_LAYERS: list[set[str]] = [
    {"clock", "heap", "lock", "panics"},
    {"proxies"},
    {"report"},
    {"lifecycle"},
    {"connections/outbox", "connections/pusher", "connections/spool", "connections/transport"},
    {"handler"},
    {"shared"},
    {"connections"},
    {"events"},
    {"watch"},
    {"threads"},
]


def net_imports() -> dict[str, set[str]]:
    """Each module of src/net, as `folder/file`, with those that it knows."""
    root = ROOT / "src" / "net"
    paths = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.rs")}
    modules = {name: path for name, path in paths.items() if path.name != "mod.rs"}
    known = {}
    for name, path in modules.items():
        code = re.sub(r"\bsuper::", f"crate::net::{name.rpartition('/')[0]}::", code_of(path)).replace("::::", "::")
        uses = [use.replace("::", "/") for use in re.findall(r"\bcrate::net::([a-z_:]+)", code)]
        known[name] = {it for it in modules if it != name and any(f"{use}/".startswith(f"{it}/") for use in uses)}
        assert all(any(f"{use}/".startswith(f"{it}/") for it in modules) for use in uses), f"{name}: one module a line"
    return known


def net_layer(module: str) -> int:
    names = (module, module.partition("/")[0])
    return next(index for name in names for index, layer in enumerate(NET_LAYERS) if name in layer)


def test_the_layers_of_the_network_point_one_way() -> None:
    arrows = [(name, it) for name, known in net_imports().items() for it in known]
    assert not [f"{name} knows {it}" for name, it in arrows if net_layer(it) > net_layer(name)]


def test_no_modules_of_the_network_know_each_other_in_a_circle() -> None:
    rest = net_imports()
    while leaves := {name for name, known in rest.items() if not known & rest.keys()}:
        rest = {name: known for name, known in rest.items() if name not in leaves}
    assert not rest


# ----------------------------------------------------------------------------------------------------------- Clock

# Functions that read the clock on the wall -> the reason. That clock may jump by years where a machine learns the time
# while it runs. No deadline, and nothing else that a jump could hurry, delay or end.
WALL_CLOCK = {
    "poorhttp/sessions/store.py: time": "when a session ends: records outlive processes and machines",
    "poorhttp/sessions/stores/mongodb.py: datetime": "the same, as MongoDB has dates",
    "poorhttp/status/scoreboard.py: Scoreboard.__init__": "told: since when it runs",
    "poorhttp/status/scoreboard.py: Scoreboard.note_reload": "told: when",
    "poorhttp/status/pidfile.py: wrote": "compared with the time of a file; where that speaks against it, other signs count",
    "poorhttp/dev/watch/bytecode.py: is_settled": "compared with times of files: bytecode that seems too young is not believed",
    "poorhttp/dispatch/error_log.py: strftime": "the time of a line",
    "poorhttp/dispatch/listing.py: _row": "the time of a file, for people",
    "poorhttp/dispatch/ranges.py: applies": "whether a date names one version of a file",
    "poorhttp/dispatch/preconditions.py: last_modified": "the field Last-Modified",
    "poorhttp/logs/log.py: _line": "the time of a line",
    "poorhttp/status/render.py: _reload": "told: when",
    "poorhttp/status/reader.py: _row": "told: for how long a process runs",
    "poorhttp/status/reader.py: read_scoreboard": "told: for how long it runs",
    "poorhttp/listen/systemd.py: Manager.reload_failed": "told: when",
    "src/http/own_fields.rs: SystemTime": "the field Date, of a second that is given",
    "src/net/report/access_log.rs: unix_second": "the time of a line",
    "src/net/report/scoreboard.rs: unix_second": "told: since when a process runs",
    "src/net/clock.rs: Realtime": "the one place of the engine that reads it",
    "src/net/proxies/request_id.rs: unix_second": "a grain of salt for the ids of requests",
    "src/net/connections/own_answers.rs: unix_second": "the field Date",
    "src/wsgi/error_log.rs: unix_second": "how far local time is from UTC, and the time of a line",
    "src/wsgi/exchange.rs: unix_second": "the field Date",
}
READS = {"time", "time_ns", "localtime", "gmtime", "strftime", "ctime", "asctime", "CLOCK_REALTIME", "datetime"}
RUST_READS = re.compile(r"(?<!fn )\b(Realtime|SystemTime|gettimeofday|CLOCK_REALTIME|unix_second(?=\())")


def reads_wall_clock(path: Path) -> set[str]:
    """The functions of a file of Python that read it, each with its class."""
    found: set[str] = set()

    def visit(node: ast.AST, name: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}".lstrip(".")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
            reads = {node.attr} & READS
        elif isinstance(node, ast.ImportFrom):
            reads = {alias.name for alias in node.names} & READS if node.module in ("time", "datetime") else set()
        else:
            reads = {alias.name for alias in node.names} & {"datetime"} if isinstance(node, ast.Import) else set()
        if reads:
            found.add(f"{name_of(path)}: {name or ', '.join(sorted(reads))}")
        for child in ast.iter_child_nodes(node):
            visit(child, name)

    visit(ast.parse(path.read_text(encoding="utf-8")), "")
    return found


def test_no_deadline_is_of_a_clock_that_jumps() -> None:
    """Each function that reads it has its reason here."""
    found = set().union(*map(reads_wall_clock, PYTHON))
    for path in RUST:
        found |= {f"{name_of(path)}: {read}" for read in RUST_READS.findall(code_of(path))}
    assert found == set(WALL_CLOCK)
