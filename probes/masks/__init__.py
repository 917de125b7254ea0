"""The witness of thread masks and scheduling policies, read from ``/proc``; no BPF.

Reader: ``threads.py``, ``witness.py`` (its thread). Decoder: ``decoder.py``. Tests:
``tests/unit/probes/test_blindness.py``, ``test_sampling.py``; ``tests/integration/test_hostile_names.py``.
"""
