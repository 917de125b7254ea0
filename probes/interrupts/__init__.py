"""The witness of interrupts: how often and how long handlers ran on watched CPUs, by source.

BPF: ``interrupts.bpf.c``, ``interrupts.h`` (records, mirrored in ``records.py``). Reader: ``reader.py`` (its side in
the kernel), ``witness.py``. Decoder: ``decoder.py``. Tests: ``tests/unit/probes/test_interrupts.py``,
``tests/integration/test_probe_interrupts.py``.
"""
