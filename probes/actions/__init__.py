"""The witness of actions: what moved a task between cgroups, and what changed an affinity mask.

BPF: ``affinity.bpf.c``, ``actions.h`` (records, mirrored in ``records.py``; moves are sent where the ledger hears of
them). Reader: ``reader.py`` (its side in the kernel), ``witness.py``. Decoder: ``decoder.py``. Tests:
``tests/unit/probes/test_actions.py``, ``tests/integration/test_probe_actions.py``.
"""
