"""The witness of memory: pages by NUMA node, and huge pages by cgroup; no BPF.

Readers and decoders: ``pages.py`` (``numa_maps``), ``hugetlb.py``. Tests: those of ``toolkit/host``, and
``tests/integration`` wherever a claim has ``mems``.
"""
