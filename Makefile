# make demo     a real program on Quarry, on a fresh Debian machine with Rust and make
# make test     what must hold; STEPS="format clippy" for some of it
# make help     all targets

SHELL := /bin/bash
.DEFAULT_GOAL := help
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
DESTDIR ?=
STEPS ?=
PAGES ?=
PROGRAMS ?=
SAMPLES ?=
RELEASE ?=
CARGO ?= cargo
# rustup puts cargo there; not every shell has this folder in its PATH.
export SAMPLES
export PATH := $(PATH):$(HOME)/.cargo/bin
# Where cargo puts what it builds for another machine: `make deb-arm64` sets CARGO_BUILD_TARGET, and
# CROSS_COMPILE, the prefix of the tools for that machine.
FOREIGN := $(addprefix /,$(CARGO_BUILD_TARGET))
TARGET := $(or $(CARGO_TARGET_DIR),target)$(FOREIGN)
# As cargo names it.
BUILT := $(TARGET)/release/libquarry_preload.so
LIBRARY := $(TARGET)/release/libquarry.so
FULL := $(TARGET)/release/libquarry-full.so
ARCHIVE := $(TARGET)/release/libquarry.a
# Slab policies beside the default, each in a shared object of its own: libquarry-NAME.so. The lab's
# list names the default first, then these.
REGISTRY := lab/eras/src/slab/names.rs
SLABS := $(shell sed -n 's/^ *"\([^"]*\)", ".*";$$/\1/p' $(REGISTRY) | sed 1d)
OTHERS := $(SLABS:%=$(TARGET)/release/libquarry-%.so)
QUARRY := $(TARGET)/tools/quarry
LAB := $(TARGET)/tools/quarry-lab
# The simulated machine: the same sources with another `primitive`, so built in its own folder.
SIM := $(TARGET)/tools/quarry-sim
PREDICT := $(TARGET)/tools/quarry-predict
# What `quarry record` preloads.
TRACER := $(TARGET)/release/libquarry_tracer.so
# The work of the experiment on one budget.
LOAD := $(TARGET)/tools/quarry-sqlite-load
SQLITE := $(TARGET)/release/libquarry_sqlite.so
# A batch job and a service in Rust, for the experiment real-programs.
JOBS := serde-batch serde-batch-quarry axum-json axum-json-quarry
# Man pages and completions.
PAGES_BUILT := $(TARGET)/pages
# The major version of the ABI, and so of the SONAME; malloc/preload/build.rs has it too.
ABI := 0
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
# These flags make the files of `make build` smaller, and callgrind counts no more instructions:
# loops are neither vectorised nor unrolled (8 % of the shared object), cold functions are not
# inlined, and loops are not aligned (2 %). lab/docs/tried.md has the figures.
SMALLER := -Cno-vectorize-loops -Cno-vectorize-slp \
	$(addprefix -Cllvm-args=,-unroll-threshold=20 -unroll-runtime=false \
	-unroll-allow-partial=false -inlinecold-threshold=5 -align-loops=1)
# Cargo chooses its own number of jobs: it does not get make's.
BUILD := env -u MAKEFLAGS -u MFLAGS RUSTFLAGS="$(strip $(RUSTFLAGS) $(SMALLER))" $(CARGO)
# AUDITABLE=auditable lists the packages that a command is made of inside it, for `cargo audit bin`.
AUDITABLE ?=
TOOL := $(BUILD) $(AUDITABLE) build --profile tools
# The lab is a workspace of its own; what both have in common is compiled once.
IN_LAB := cd lab && CARGO_TARGET_DIR=$(abspath $(TARGET))
# write_pages COMMAND PAGES: lets COMMAND write its own man pages and completions, without PAGES of
# an older one, whose subcommands may have had other names.
write_pages = echo "==> man pages and completions of $(notdir $(1))" \
	&& rm -f $(addprefix $(PAGES_BUILT)/man/,$(2)) && $(1) pages $(PAGES_BUILT)
# What a shared object is built from.
SOURCES := Cargo.toml Cargo.lock \
	$(shell find $(addprefix malloc/,sys mm cache watch quarry preload) \
	-name tests -prune -o -type f -print)
SOURCES_OF_OTHERS := lab/Cargo.toml lab/Cargo.lock \
	$(shell find lab/eras lab/library* -name tests -prune -o -type f -print)
# Experiments that replay kernel paths.
REPLAYS := netperf-udp-stream netperf-tcp-stream udp-u-1k udp-u-4k sockperf-udp-throughput \
	sockperf-tcp-throughput sockperf-under-load tcp-rr hackbench fsmark page-fault1 list-free \
	sparsetruncate-tiny sparsetruncate-large bonnie reaim dbench4 varmail

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: demo
demo: ## build, then redis on glibc and on Quarry, seen from inside, and a leak found
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh $(QUARRY)

.PHONY: demo-lab
demo-lab: ## the first experiment of the kernel documents: packets of 4 KiB under each policy
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory lab-command
	@scripts/demo-lab.sh $(QUARRY)

.PHONY: test
test: ## what must hold before a change is merged, as continuous integration runs it
	@scripts/test.sh $(STEPS)

.PHONY: test-all
test-all: ## everything there is to test, before a release; adds a line to docs/results/test-all.md
	@scripts/test.sh --all $(STEPS)

.PHONY: commits
commits: ## the messages of this branch's commits, or of RANGE=main..HEAD
	@scripts/commits.sh $(RANGE)

.PHONY: quick
quick: ## the loop while you write: format, clippy and tests of the core, in less than a minute
	@scripts/test.sh quick

.PHONY: build
build: ## the product: libquarry.so, libquarry-full.so, and the command quarry with its man pages
	@$(MAKE) --no-print-directory -j2 stripped-libraries command
	@scripts/embed.sh $(QUARRY) $(LIBRARY) $(FULL)
	@scripts/strip.sh $(QUARRY)
	@$(call write_pages,$(QUARRY),quarry.1 quarry-[!l]*.1 quarry-l[!a]*.1)

# Both are built at the same time, in two folders of cargo: the library's link keeps one CPU busy.
.PHONY: stripped-libraries library command
stripped-libraries: library $(FULL)
	@scripts/strip.sh $(LIBRARY) $(FULL)
	@ln -sf $(notdir $(LIBRARY)) $(LIBRARY).$(ABI)
	@ln -sf $(notdir $(FULL)) $(FULL).$(ABI)
library:
	@echo "==> building libquarry.so"
	$(BUILD) build --release -p quarry-preload
	@# The stripped file has the time of the one that it was made from.
	@[ ! $(BUILT) -nt $(LIBRARY) ] || cp --remove-destination --preserve=timestamps $(BUILT) $(LIBRARY)
command:
	@echo "==> building the command quarry"
	$(TOOL) -p quarry-cli --bin quarry

.PHONY: static
static: ## libquarry.a: Quarry inside a program in C, C++ or Go
	@echo "==> building libquarry.a"
	$(BUILD) build --release -p quarry-static
	@scripts/archive.sh $(TARGET)/release/libquarry_static.a $(ARCHIVE)

# The same for static programs on musl.
MUSL := x86_64-unknown-linux-musl
.PHONY: static-musl
static-musl: ## libquarry-musl.a, for static programs on musl
	@echo "==> building libquarry-musl.a"
	$(BUILD) build --release -p quarry-static --target $(MUSL) --target-dir $(TARGET)/musl/static
	@scripts/archive.sh $(TARGET)/musl/static/$(MUSL)/release/libquarry_static.a \
		$(TARGET)/release/libquarry-musl.a

.PHONY: lab
lab: lab-command sqlite ## quarry lab, quarry simulate, quarry record, and what they start
	@echo "==> building quarry-sqlite-load"
	$(IN_LAB) $(TOOL) -p quarry-sqlite-load
	@scripts/strip.sh $(LOAD)
	@echo "==> building libquarry_tracer.so"
	$(BUILD) build --release -p quarry-tracer
	@scripts/strip.sh $(TRACER)
	@echo "==> building quarry-sim and quarry-predict"
	$(IN_LAB)/sim RUSTFLAGS="$(strip $(RUSTFLAGS) --cfg quarry_sim)" \
		$(CARGO) build --profile tools -p quarry-sim -p quarry-predict \
		--features quarry-sim/machine,quarry-predict/machine
	cp $(addprefix $(TARGET)/sim/tools/,$(notdir $(SIM) $(PREDICT))) $(dir $(SIM))
	@scripts/strip.sh $(SIM) $(PREDICT)

.PHONY: lab-command
lab-command: build
	@echo "==> building quarry-lab"
	$(IN_LAB) $(TOOL) -p quarry-lab --bin quarry-lab
	@scripts/embed.sh $(LAB) $(LIBRARY) $(FULL)
	@scripts/strip.sh $(LAB)
	@$(call write_pages,$(LAB),quarry-lab*.1)

.PHONY: sqlite
sqlite: ## libquarry_sqlite.so: SQLite's page cache and heap on Quarry
	@echo "==> building libquarry_sqlite.so"
	$(BUILD) build --release -p quarry-sqlite-object
	@scripts/strip.sh $(SQLITE)
	@ln -sf $(notdir $(SQLITE)) $(SQLITE).$(ABI)

.PHONY: policies
policies: $(OTHERS) ## libquarry-NAME.so of the other slab policies

.PHONY: all
all: build static lab policies ## everything that make install can install

$(FULL): $(SOURCES)
	@echo "==> building $(@F)"
	$(BUILD) build --release -p quarry-preload --features full --target-dir $(TARGET)/slabs
	@mkdir -p $(@D)
	cp $(TARGET)/slabs$(FOREIGN)/release/$(notdir $(BUILT)) $@
	@scripts/strip.sh $@

# All policies are built in one folder: from one to the next, cargo compiles only the crates that
# the policy changes, those of lab/library*. It remembers only the last policy, so make itself
# compares the times of files.
$(OTHERS): $(TARGET)/release/libquarry-%.so: $(SOURCES) $(SOURCES_OF_OTHERS)
	@echo "==> building $(@F)"
	$(IN_LAB)/slabs QUARRY_BUILD_SLAB=$* $(BUILD) build --release -p quarry-library
	@mkdir -p $(@D)
	cp $(TARGET)/slabs/release/$(notdir $(BUILT)) $@
	@scripts/strip.sh $@

.PHONY: slabs
slabs: ## names of the slab policies beside the default, each a libquarry-NAME.so
	@printf '%s\n' $(SLABS)

# Compiles nothing, so that nothing is compiled as root.
.PHONY: install
install: ## what make build made, and make lab, sqlite and policies where they ran, into PREFIX
	@for file in $(LIBRARY) $(if $(FOREIGN),,$(QUARRY) $(PAGES_BUILT)/man/quarry.1); do \
		[ -e $$file ] || { \
			echo "make install: $$file is missing: run 'make build' first" >&2; \
			exit 1; \
		}; \
	done
	@echo "==> installing into $(DESTDIR)$(PREFIX)"
	@scripts/install.sh

.PHONY: uninstall
uninstall: ## takes away what make install with the same variables put there
	@echo "==> uninstalling from $(DESTDIR)$(PREFIX)"
	@scripts/install.sh --remove

# Variables for scripts/install.sh.
install uninstall: export TARGET := $(TARGET)
install uninstall: export VERSION := $(VERSION)
install uninstall: export ABI := $(ABI)
install uninstall: export SLABS := $(SLABS)
install uninstall: export PROGRAMS_BUILT := $(JOBS)
# Exported only here: a make that is called with another PREFIX would inherit the folders below.
install uninstall: export PREFIX := $(PREFIX)
install uninstall: export LIBDIR := $(LIBDIR)
install uninstall: export MANDIR := $(MANDIR)
install uninstall: export BASHDIR := $(BASHDIR)
install uninstall: export ZSHDIR := $(ZSHDIR)
install uninstall: export FISHDIR := $(FISHDIR)
install uninstall: export DESTDIR := $(DESTDIR)

# All that the packages hold, but for the lab.
.PHONY: packaged
packaged: build static sqlite

# Those of the packages without the command.
.PHONY: packaged-libraries
packaged-libraries: stripped-libraries static sqlite

.PHONY: deb deb-lab deb-arm64
deb: ## Debian packages into target/deb, with their symbols in packages of their own
	@scripts/setup.sh deb
	@scripts/deb.sh
deb-lab: ## as make deb, with the package quarry-lab, which takes most of the time to build
	@scripts/setup.sh deb
	@scripts/deb.sh --lab
deb-arm64: ## the packages of the libraries for arm64, into target/deb-arm64
	@scripts/setup.sh aarch64
	@scripts/deb.sh --arm64

.PHONY: dist
dist: ## a tar archive of what make install installs, the same byte for byte from any folder
	@scripts/dist.sh

.PHONY: wheel npm
wheel: ## a wheel with the command and the libraries, for pip, into target/packages
	@scripts/wheel.sh
npm: ## the same as a package for npm
	@scripts/wheel.sh --npm

.PHONY: dist-test
dist-test: ## builds the archive, the wheel and npm's package in two folders, and compares
	@scripts/dist-test.sh

.PHONY: release abi
release: ## all that is published, up to the last step before it, into target/release-VERSION
	@scripts/setup.sh release
	@scripts/release.sh $(RELEASE)
abi: ## what make build made, beside the symbols and types of the last version
	@scripts/abi.sh

.PHONY: docs
docs: ## the documentation of the crates
	@echo "==> rustdoc"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	@echo "open $(TARGET)/doc/quarry/index.html; start reading at ARCHITECTURE.md"

.PHONY: bench-smoke
bench-smoke: ## short runs of the experiments: do they work, not how fast
	@[ -x $(LAB) ] || $(MAKE) --no-print-directory lab
	@echo "==> quarry lab run malloc-patterns --quick"
	$(QUARRY) lab run malloc-patterns --quick
	@for experiment in $(REPLAYS); do \
		echo "==> quarry lab run $$experiment --quick"; \
		$(QUARRY) lab run $$experiment --quick || exit; \
	done
	@echo "==> quarry lab run udp-u-4k --quick --place=same"
	$(QUARRY) lab run udp-u-4k --quick --place=same
	@echo "==> quarry lab run idle-return|growth|start-up|churn|empty --quick"
	$(QUARRY) lab run idle-return --quick
	$(QUARRY) lab run growth --quick --bursts 1,2
	$(QUARRY) lab run start-up --quick
	$(QUARRY) lab run churn --quick
	$(QUARRY) lab run empty --quick
	@echo "==> quarry lab run one-budget --quick"
	$(QUARRY) lab run one-budget --quick
	@echo "==> quarry lab run peers --quick"
	$(QUARRY) lab run peers --quick
	@echo "==> quarry lab run kernel --quick"
	$(QUARRY) lab run kernel --quick
	@echo "==> quarry lab run real-programs --quick"
	$(QUARRY) lab run real-programs --quick --variants glibc,quarry
	@echo "==> quarry lab run programs --quick --only git,perl,php"
	$(QUARRY) lab run programs --quick --only git,perl,php

.PHONY: results
results: lab ## lab/results anew, or PAGES="memory peers"; nothing else should run
	@scripts/results.sh $(PAGES)

.PHONY: programs
programs: ## fill docs/programs.md; or print PROGRAMS="node git", with SAMPLES=1
	@scripts/setup.sh programs
	@$(MAKE) --no-print-directory lab
	@scripts/programs.sh $(PROGRAMS)

.PHONY: foreign
foreign: ## the test suites of other allocators on Quarry, into docs/foreign.md
	@scripts/setup.sh foreign
	@$(MAKE) --no-print-directory lab
	@scripts/results.sh foreign

.PHONY: musl
musl: ## libquarry-musl.so, its tests, and static programs on the crate, into docs/musl.md
	@scripts/setup.sh musl
	@scripts/musl.sh

.PHONY: aarch64
aarch64: ## libquarry.so in emulated machines for aarch64, with pages of 4, 16 and 64 KiB
	@scripts/setup.sh aarch64
	@scripts/aarch64.sh --system

.PHONY: nodes
nodes: ## libquarry-full.so in emulated machines with two and four NUMA nodes
	@scripts/setup.sh nodes
	@$(MAKE) --no-print-directory $(FULL)
	@scripts/nodes.sh

# For scripts/musl.sh.
.PHONY: smaller
smaller:
	@echo "$(SMALLER)"

.PHONY: peers
peers: ## newest versions of other allocators into target/peers, for comparisons
	@scripts/setup.sh peers
	@scripts/peers.sh

.PHONY: jobs
jobs: ## jobs as Rust programs do them, for the experiment real-programs
	@echo "==> building the jobs"
	$(IN_LAB) $(CARGO) build --release --locked -p rust-jobs
	@mkdir -p $(TARGET)/peers
	cp $(patsubst %,$(TARGET)/release/%,$(JOBS)) $(TARGET)/peers/

.PHONY: soak
soak: ## what finds more the longer it runs: SOAK=idle, owners, services or suites, MINUTES=120
	@scripts/soak.sh

.PHONY: fuzz
fuzz: ## inputs that libFuzzer makes, for MINUTES=60 each; FUZZ="record trace" are some targets
	@python3 scripts/fuzz/run.py $(FUZZ)

.PHONY: clean
clean: ## what cargo and the scripts built
	$(CARGO) clean

.PHONY: figures
figures: ## the figures of README.md and docs/performance.md, from the recorded runs
	@$(CARGO) run --quiet --locked -p quarry-tidy --bin figures
