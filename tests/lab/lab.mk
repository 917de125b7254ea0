# The lab of virtual machines. Included by the Makefile; see tests/lab/README.md.
LAB_TOPOLOGY ?= small
LAB_KERNEL ?= 6.1
LAB_FLAVOUR ?= plain
# --flavour plain, --flavour systemd, --flavour arm64; empty: the first two images.
LAB_FLAVOURS ?=
# The words of the guest's command line for lab-run.
RUN ?= pinproof doctor

.PHONY: lab lab-quick lab-arm64 lab-ci lab-ci-image lab-setup lab-image lab-run lab-clean

# Guests side by side, each on a worker of its own; the guests with the most tests begin first. Each test is named when it
# has ended, and a failure described at once (harness/plugin.py).
LAB_SIDE_BY_SIDE = -vv -n "$$($(BIN)/python -m tests.lab.harness guests)" --dist loadgroup

lab: lab-image ## every lab test over all topologies and kernels, in QEMU guests (root)
	@$(BIN)/python -m pytest tests/lab --ignore=tests/lab/test_lab_arm64.py --require-lab $(LAB_SIDE_BY_SIDE) $(ARGS)

lab-quick: LAB_FLAVOURS := --flavour plain
lab-quick: lab-image ## a cross-section of the lab: every room, kernel and kind of cgroups; meant for 10 minutes (root)
	@mkdir -p .cache && $(BIN)/python -m tests.lab.harness quick >.cache/lab-quick.tests
	@$(BIN)/python -m pytest --require-lab $(LAB_SIDE_BY_SIDE) $(ARGS) @.cache/lab-quick.tests

lab-arm64: LAB_FLAVOURS := --flavour arm64
lab-arm64: lab-image ## the probes on arm64, with pages of 4 and 16 KiB (root)
	@$(BIN)/python -m pytest tests/lab/test_lab_arm64.py --require-lab $(LAB_SIDE_BY_SIDE) $(ARGS)

# What needs no guest, and one guest with the few scenarios that run everywhere.
LAB_CI := tests/lab/test_lab_harness.py \
	$(addprefix tests/lab/test_lab_catalogue.py::,test_the_whole_catalogue_is_run test_every_broken_promise_is_run \
	test_every_machine_and_kernel_runs_some test_scenario[quad-6.12-strict-reservation] \
	test_scenario[quad-6.12-quota-050-set] test_scenario[quad-6.12-exclusive-and-shared])

lab-ci lab-ci-image: LAB_FLAVOURS := --flavour plain
lab-ci-image: lab-image
lab-ci: lab-ci-image ## the lab's short run: one guest, the few scenarios that run everywhere (root)
	@$(BIN)/python -m pytest --require-lab $(foreach test,$(LAB_CI),'$(test)') $(ARGS)

lab-setup: root setup-test ## install the host programs that the lab needs
	@$(BIN)/python -m tests.lab.harness setup

lab-image: lab-setup ## build the guest image unless the present recipe has one
	@$(BIN)/python -m tests.lab.harness image $(LAB_FLAVOURS)

lab-run: LAB_FLAVOURS := --flavour $(LAB_FLAVOUR)
lab-run: lab-image ## RUN="pinproof topology" in a guest of LAB_TOPOLOGY, LAB_KERNEL and LAB_FLAVOUR
	@$(BIN)/python -m tests.lab.harness run --topology $(LAB_TOPOLOGY) --kernel $(LAB_KERNEL) --flavour $(LAB_FLAVOUR) $(RUN)

lab-clean: ## remove the lab's images, kernels and snapshots
	@$(BIN)/python -m tests.lab.harness clean
