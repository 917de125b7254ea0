"""The witness of interrupts: how often and how long handlers ran on watched CPUs, by source.

BPF: ``interrupts.bpf.c``, ``interrupts.h`` (records, mirrored in ``records.py``). Reader and decoder: ``reader.py``.
Tests: ``tests/unit/probes/test_interrupts.py``, ``tests/integration/test_probe_interrupts.py``.
"""
