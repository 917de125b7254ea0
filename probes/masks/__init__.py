"""The witness of thread masks and scheduling policies: ``/proc``, and on large nodes the kernel's list of tasks, too.

BPF: ``masks.bpf.c`` (an iterator), ``masks.h``. Reader: ``threads.py`` (scans), ``thread.py`` and ``status.py``
(``/proc``), ``iterator.py``, ``records.py``, ``passes.py`` and ``listed.py`` (the list), ``sample.py`` (both are
compared), ``scan_method.py`` (which of both), ``joining.py``, ``strays.py`` (what is in some cgroups of a claim only),
``rows.py`` (what is kept), ``witness.py`` (its thread). Decoder: ``decoder.py``. Tests:
``tests/unit/probes/test_blindness.py``, ``test_sampling.py``, ``test_strays.py``, ``test_mask_*.py``;
``tests/integration/test_hostile_names.py``, ``test_strays.py``, ``test_mask_*.py``.
"""
