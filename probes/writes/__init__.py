"""The witness of writes: what wrote which value to a control file of a claimed cgroup or of one above it.

BPF: ``writes.bpf.c``, ``writes.h`` (records, mirrored in ``records.py``). Reader: ``reader.py`` (its side in the
kernel), ``directories.py`` (which directories are watched), ``notices.py`` (inotify, where the program is refused),
``witness.py``. Decoder: ``decoder.py``. Tests: ``tests/unit/probes/test_writes.py``, ``test_notices.py``,
``tests/integration/test_probe_writes.py``, ``test_watch_writer.py``, ``test_watch_pace.py``.
"""
