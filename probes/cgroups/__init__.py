"""The witnesses of cgroups: control files, counters, and whether a claim's cgroup is still the known one.

BPF: ``cgroups.bpf.c``, ``cgroups.h`` (records). Readers: ``claimed_paths.py`` (its side in the kernel: what became of
names), ``tracker.py`` (a cgroup is tracked by its name), ``identity.py`` (a claim's is), ``pods_root.py`` (so is that
of all pods), ``files.py`` with ``control_files.py``, ``known_files.py`` (bytes and what they mean) and
``file_reader.py`` (its work; ``pace.py``: how often, ``watched_tree.py``: of which cgroups), ``counters.py`` with
``bandwidth.py``, ``pressure.py``.
Decoder: ``decoder.py``, ``lives.py`` (CPU time over the lives of a cgroup).
Tests: ``tests/unit/probes/test_lives.py``, ``test_sampling.py``, ``test_control_files.py``, ``test_file_pace.py``,
``test_pressure.py``;
``tests/integration/test_cgroup_identity.py``, ``test_pods_root.py``, ``test_control_files.py``,
``test_probe_bandwidth.py``.
"""
