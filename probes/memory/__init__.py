"""The witness of memory and devices: pages by NUMA node, huge pages by cgroup; no BPF.

Readers: ``pages.py`` (``numa_maps``), ``hugetlb.py``, ``witness.py``. Decoder: ``decoder.py``. Tests:
``tests/unit/probes/test_memory.py``, those of ``toolkit/host``, ``tests/integration`` wherever a claim has ``mems``.
"""
