# pinproof: `sudo make conformance` judges this machine, `sudo make test` tests pinproof. `make help` lists the rest.
# Every target sets up what it needs first (ansible/setup.sh; at once when it is done already).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
# Passed on to the program that a target runs: make conformance ARGS="--select quota", make test ARGS="-k cpuset -x"
ARGS ?=
# The interpreter of the venv must not be mixed with packages of the caller's own environment.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
# Many images set this; each worker and each program under test would then compile all of pinproof again.
unexport PYTHONDONTWRITEBYTECODE
# With this set, no test meets what Python keeps in its buffers until it exits.
unexport PYTHONUNBUFFERED

# `PATH` for tools that a test starts by name (ansible-playbook, ruff) and for tools in sbin.
export PATH := $(CURDIR)/$(BIN):$(PATH):/usr/local/sbin:/usr/sbin:/sbin

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  ARGS="..."     goes to the program that the target runs'

.PHONY: setup setup-test root
setup:
	@sh ansible/setup.sh run

setup-test:
	@sh ansible/setup.sh test

root:
	@[ "$$(id -u)" = 0 ] || { echo "make: this needs root (eBPF and cgroups): sudo make $(MAKECMDGOALS)" >&2; exit 4; }

# ---------------------------------------------------------------- the two commands of the README

.PHONY: conformance
conformance: root setup ## judge this machine: the core of the catalogue, with its negative controls; all: ARGS=--full (root)
	@$(BIN)/pinproof conformance $(ARGS)

.PHONY: test
test: root setup-test ## all tests that need no other machine: unit and integration (root)
	@if [ -n '$(subst ','\'',$(ARGS))' ]; then $(BIN)/python -m pytest -m "not slow" tests/unit tests/integration $(ARGS); \
	else sh tests/everything.sh $(BIN)/python; fi

# ---------------------------------------------------------------- parts

.PHONY: test-unit
test-unit: setup-test ## the tests that need no root
	@$(BIN)/python -m pytest -n auto --dist loadfile tests/unit $(ARGS)

# `make test-of toolkit/disk.py`: the file is a goal of make, too, and nothing is to be made of it.
ifeq ($(firstword $(MAKECMDGOALS)),test-of)
OF := $(wordlist 2,99,$(MAKECMDGOALS))
.PHONY: $(OF)
$(OF):
	@:
endif
.PHONY: test-of
test-of: setup-test ## FILE: the unit tests that reach a source file, nearest first; options: ARGS="--all", "--list"
	@$(BIN)/python -m tests.reach $(OF) $(ARGS)

.PHONY: mutants
mutants: setup-test ## break twenty lines, one after the other: the quick tests must notice each
	@$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: bench
bench: root setup-test ## measure: every tests/benchmarks/bench_*.py, or those named in ARGS (root)
	@$(BIN)/python -m tests.benchmarks $(ARGS)

.PHONY: doctor
doctor: setup ## what this machine can do, and how to get what it cannot
	@$(BIN)/pinproof doctor $(ARGS)

.PHONY: lint
lint: setup-test ## ruff: rules and format
	@$(BIN)/ruff check $(ARGS)
	@$(BIN)/ruff format --check $(ARGS)

.PHONY: types
types: setup-test ## mypy, strict
	@$(BIN)/mypy $(ARGS)

.PHONY: package
package: setup-test ## build the wheel, install it in an empty environment, and use it there
	@sh .ci/check-wheel

.PHONY: manual
manual: setup-test ## manual pages and completion of bash, zsh and fish, from the command line: dist/share (cp -r it to /usr/local)
	@$(BIN)/python -m tools.manual dist/share
	@$(BIN)/python -m tools.completion dist/share

.PHONY: deb
deb: setup-test ## a Debian package for Debian 12 and newer, amd64, by Debian's own tools: dist/pinproof_VERSION_amd64.deb
	@sh .ci/deb

# Debian's mmdebstrap and umoci are installed where they are missing. What is in an image, and why it is the same twice: .ci/image.
.PHONY: image image-slim
image: root setup ## build a container image, dist/pinproof-VERSION-full.oci.tar: Python, bcc, LLVM, extras kubelet and gate (root)
	@sh .ci/image full

image-slim: root setup ## without a compiler: programs for this kernel, and those in PROGRAMS=DIR (/var/cache/pinproof of nodes) (root)
	@sh .ci/image slim

.PHONY: deploy-check
deploy-check: setup ## what deploy/ has: the schemas of Kubernetes, kustomize, Helm and systemd, where they are installed
	@sh .ci/deploy-check

.PHONY: compilers
compilers: root setup-test ## does the verifier take what these clangs make of the probes: ARGS="clang-16 clang-19" (root)
	@$(BIN)/python -m tests.compilers $(ARGS)

# SUITE: bookworm, trixie or forky (Debian testing). What it does, and what the chroot shares with this machine: .ci/distro.
SUITE ?= trixie
# TARGETS: what is made there instead: tried, tried-deb.
TARGETS ?=
.PHONY: distro
distro: root ## SUITE=bookworm|trixie|forky: the README's two commands in a fresh Debian of that release (root, minutes)
	@sh .ci/distro $(SUITE) $(TARGETS)

# Each verb once; how each came out: dist/tried.json.
.PHONY: tried tried-deb
tried: root setup
	@$(BIN)/python tools/verbs_tried.py --how make --out dist/tried.json $(ARGS) -- $(BIN)/pinproof

tried-deb: root
	@sh .ci/tried-deb $(ARGS)

# SUITES, TARGETS: of some releases, or only the package (tried-deb); the other rows stay.
.PHONY: distro-table
distro-table: root ## docs/distributions.md anew: each verb, from the checkout and from the package, in each Debian (root, an hour)
	@sh .ci/distro-table $(SUITES)

.PHONY: ansible-check
ansible-check: setup-test ## ansible-lint (production profile) and the syntax of the playbooks
	@mkdir -p .cache/collections/ansible_collections/pinproof
	@ln -sfn "$(CURDIR)/ansible" .cache/collections/ansible_collections/pinproof/node
	@export ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.cache/collections; \
	(cd ansible && ansible-lint --offline --profile production $(ARGS)) && for playbook in ansible/playbooks/*.yml; do \
	  ansible-playbook --syntax-check -i ansible/inventories/example/hosts.yml "pinproof.node.$$(basename "$$playbook" .yml)" || exit; done

# PYTHONS and MACHINES: for which nodes it has wheels in it.
.PHONY: collection
collection: setup-test ## build the Ansible collection with all wheels in it: dist/pinproof-node-VERSION.tar.gz
	@sh .ci/collection

# Guests under QEMU: tests/lab/lab.mk adds lab, lab-ci and what they need.
-include tests/lab/lab.mk

.PHONY: kubelet
kubelet: setup-test ## build a real kubelet (Debian's sources, v1.20.2) for tests/integration/test_real_kubelet.py (10 minutes)
	@sh .ci/kubelet

.PHONY: clean
clean: ## remove what was built or cached here; installed packages stay
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .ansible ansible/.ansible
	find toolkit probes validators tests -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: soak
soak: root setup-test ## hours: the full counts (1,000 starts and changes, 10 minutes of switches, 30 minutes of churn, of random plots, 50 kills)
	@export PINPROOF_SOAK=1; python=$(CURDIR)/$(BIN)/python; $$python -m pytest tests/unit $(ARGS); unit=$$?; \
	cd tests/integration; files="test_random_plots.py test_no_false_alarm.py test_churn.py test_apply_kill.py"; \
	$$python -m pytest $$files test_torn_readings.py -s $(ARGS); first=$$?; \
	$$python -m pytest -m slow . $(ARGS); exit $$((unit | first | $$?))
