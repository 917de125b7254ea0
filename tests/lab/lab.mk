# The lab of virtual machines. Included by the Makefile; see tests/lab/README.md.
LAB_PYTHON ?= .venv/bin/python
LAB_TOPOLOGY ?= small
LAB_KERNEL ?= 6.1
LAB_TESTS ?= tests/lab

.PHONY: lab lab-quick lab-setup lab-image lab-run lab-clean

lab: lab-image ## every lab test over all topologies and kernels
	$(LAB_PYTHON) -m pytest $(LAB_TESTS) --require-lab

lab-quick: lab-image ## the subset for every change: the small guest on two kernels
	$(LAB_PYTHON) -m pytest $(LAB_TESTS) --require-lab -m "lab and not slow"

lab-setup: ## install the host programs that the lab needs from Debian's packages
	$(LAB_PYTHON) -m tests.lab.harness setup

lab-image: lab-setup ## build the guest image unless the present recipe has one
	$(LAB_PYTHON) -m tests.lab.harness image

lab-run: lab-image ## one command in a guest: make lab-run RUN="pinproof topology" LAB_TOPOLOGY=wide LAB_KERNEL=6.12
	$(LAB_PYTHON) -m tests.lab.harness run --topology $(LAB_TOPOLOGY) --kernel $(LAB_KERNEL) -- $(RUN)

lab-clean: ## remove images, kernels and snapshots
	$(LAB_PYTHON) -m tests.lab.harness clean
