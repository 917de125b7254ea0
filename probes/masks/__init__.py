"""The witness of thread masks and scheduling policies, read from ``/proc``; no BPF.

Reader: ``threads.py``, ``status.py`` (what a file says), ``strays.py`` (who is in some cgroups of a claim only),
``witness.py`` (its thread). Decoder: ``decoder.py``. Tests: ``tests/unit/probes/test_blindness.py``,
``test_sampling.py``, ``test_strays.py``; ``tests/integration/test_hostile_names.py``, ``test_strays.py``.
"""
