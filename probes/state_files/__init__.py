"""The witness of state files: which process wrote the kubelet's ``cpu_manager_state`` and ``memory_manager_state``.

BPF: ``ended.bpf.c`` (names of processes that have ended). Reader: ``reader.py`` (its side in the kernel),
``witness.py`` (fanotify). Decoder: ``decoder.py``. Tests: ``tests/unit/probes/test_state_files.py``,
``tests/integration/test_watch_writer.py``.
"""
