# `make` lists its targets.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PEERS = bench/.venv-peers
FUZZ_SECONDS ?= 600
FUZZ = $(BIN)/python -m fuzz.run --programs fuzz/target/$(HOST)/release
# What cargo-fuzz builds with, which needs no nightly: coverage, not a sanitizer, for `src/http/` has no `unsafe`.
FUZZ_FLAGS = --cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module \
    $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(BIN)/python  ## install into .venv and serve the tour of examples/
	$(BIN)/pip install --quiet .
	$(BIN)/poorhttp -c poorhttp.ini

.PHONY: test
test: $(BIN)/python  ## install with what tests need, and run them
	$(BIN)/pip install --quiet -e '.[test]'
	$(BIN)/pytest

.PHONY: check
check: $(BIN)/python  ## what must hold besides the tests: format, lint, types, the engine by itself, its dependencies
	$(BIN)/pip install --quiet -e '.[dev]'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cargo fmt --check
	cargo clippy --quiet --all-targets -- -D warnings
	cargo test --quiet --no-default-features
	$(BIN)/pytest --quiet tests/test_dependencies.py tests/test_unsafe.py
	$(MAKE) --no-print-directory fuzz-short

.PHONY: fuzz-build
fuzz-build: $(BIN)/python
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --quiet --locked --release --manifest-path fuzz/Cargo.toml \
	    --target-dir fuzz/target --target $(HOST)

.PHONY: fuzz-short
fuzz-short: fuzz-build  ## the fuzz targets for a few seconds, from the corpus and one fixed seed
	rm -rf fuzz/target/seeds
	$(FUZZ) fuzz/target/seeds --seconds 4 --runs 50000 --seed 1

.PHONY: fuzz
fuzz: fuzz-build  ## a thousand edits, a million requests against other parsers, each fuzz target for FUZZ_SECONDS
	$(BIN)/pip install --quiet -e '.[test,fuzz]'
	EDITS=1000 $(BIN)/python -m pytest -n 0 -s tests/process/test_dev_checkpoints.py -k cold_start
	cargo build --quiet --release --no-default-features --example verdicts
	$(BIN)/python -m conformance.differential --cases 1000000 --record
	$(FUZZ) fuzz/corpus --seconds $(FUZZ_SECONDS) --record

.PHONY: format
format:  ## rewrite Python and Rust in the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt

FERRETDB = v1.24.0
.PHONY: ferretdb
ferretdb: .cache/ferretdb/ferretdb  ## build FerretDB, which speaks the protocol of MongoDB in tests (needs Go)

# Its program wants its version in a file, which the module's archive does not have.
.cache/ferretdb/ferretdb:
	rm -rf .cache/ferretdb && mkdir -p .cache/ferretdb
	cp -r "$$(go mod download -json github.com/FerretDB/FerretDB@$(FERRETDB) | sed -n 's/^.*"Dir": "\(.*\)",$$/\1/p')" .cache/ferretdb/source
	chmod -R u+w .cache/ferretdb/source
	printf $(FERRETDB) > .cache/ferretdb/source/build/version/version.txt
	cd .cache/ferretdb/source && go build -buildvcs=false -tags ferretdb_no_postgresql -o ../ferretdb ./cmd/ferretdb
	rm -rf .cache/ferretdb/source

.PHONY: docs
docs: $(BIN)/python  ## build the manual as a site, in build/site
	$(BIN)/pip install --quiet mkdocs-material
	rm -rf build/manual build/site
	mkdir -p build/manual
	git ls-files -z '*.md' docs examples findings bench/records conformance/records \
	    | xargs -0 cp --parents --target-directory build/manual
	$(BIN)/mkdocs build --quiet

.PHONY: dist
dist: $(BIN)/python  ## build the source distribution and a wheel
	$(BIN)/pip install --quiet build
	$(BIN)/python -m build

.PHONY: wheels
wheels: $(BIN)/python  ## build the source distribution and wheels for several Pythons and processors (packaging/wheels.py)
	$(BIN)/pip install --quiet 'build>=1.2' wheel auditwheel cargo-zigbuild ziglang
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python packaging/wheels.py

# No cache: it would give a mod_wsgi that was linked with the library of another Python of this version.
.PHONY: bench-peers
bench-peers:  ## install the servers that the bench compares with
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --no-cache-dir -r bench/peers.txt || $(MAKE) --no-print-directory bench-each-peer
	CFLAGS=-O2 MEINHELD_NOGREEN=1 $(PEERS)/bin/pip install --quiet --no-deps --no-binary :all: -r bench/peers-alone.txt \
	    || echo "not installed: what bench/peers-alone.txt names"

# What does not install must not keep the others from it; pip has told why, and this names it.
.PHONY: bench-each-peer
bench-each-peer:
	@grep -v '^#' bench/peers.txt | while read -r peer; do \
	    $(PEERS)/bin/pip install --quiet --no-cache-dir "$$peer" || echo "not installed: $$peer"; \
	done

.PHONY: bench-systems
bench-systems:  ## install the Debian packages that the bench needs (as root)
	apt-get install --yes --no-install-recommends $$(grep -v '^#' bench/systems.txt)

.PHONY: bench-cost
bench-cost: $(BIN)/python  ## measure what a request costs, beside a bare loop and the peers
	$(BIN)/pip install --quiet -e '.[bench]'
	$(BIN)/python -m bench cost

.PHONY: conformance
conformance: $(BIN)/python  ## feed other people's requests to poorhttp and the peers (make bench-peers), and record it
	$(BIN)/pip install --quiet -e '.[test]'
	$(BIN)/python -m conformance.functional --record
	$(BIN)/python -m conformance --every-cut

.PHONY: clean
clean:  ## remove what was built
	rm -rf build dist target fuzz/target *.egg-info poorhttp/_engine*.so bench/build

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
