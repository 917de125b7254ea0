# The lab of virtual machines. Included by the Makefile; see tests/lab/README.md.
LAB_TOPOLOGY ?= small
LAB_KERNEL ?= 6.1
# The words of the guest's command line for lab-run.
RUN ?= pinproof doctor

.PHONY: lab lab-ci lab-setup lab-image lab-run lab-clean

lab: lab-image ## every lab test over all topologies and kernels, in QEMU guests (root)
	@$(BIN)/python -m pytest tests/lab --require-lab $(ARGS)

lab-ci: lab-image ## the lab's short run: the small guest on every kernel (root)
	@$(BIN)/python -m pytest tests/lab --require-lab -k "harness or small" $(ARGS)

lab-setup: root setup-test ## install the host programs that the lab needs
	@$(BIN)/python -m tests.lab.harness setup

lab-image: lab-setup ## build the guest image unless the present recipe has one
	@$(BIN)/python -m tests.lab.harness image

lab-run: lab-image ## RUN="pinproof topology" in a guest of LAB_TOPOLOGY and LAB_KERNEL
	@$(BIN)/python -m tests.lab.harness run --topology $(LAB_TOPOLOGY) --kernel $(LAB_KERNEL) $(RUN)

lab-clean: ## remove the lab's images, kernels and snapshots
	@$(BIN)/python -m tests.lab.harness clean
