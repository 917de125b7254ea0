"""The witnesses of the node: its own counters, threads that it hides, CPUs that come and go; no BPF.

Readers: ``system.py`` (``/proc/stat``, run delay, softirqs), ``waits.py`` (whose run delay is read),
``untraced.py`` (threads that no tracepoint reports), ``presence.py`` (CPUs online; the events are
``toolkit.host.hotplug``'s); ``witness.py`` (the counters), ``cpus.py``.
Decoder: ``decoder.py``. Tests: ``tests/unit/probes/test_sampling.py``, ``test_waits.py``, ``test_lifecycle.py``;
``tests/integration/test_hidden_switches.py``, ``test_hotplug_events.py``.
"""
