"""The witness of context switches: what ran where, for how long, and whether the claim allowed it.

BPF: ``ledger.bpf.c`` with ``claims.h`` (slot lookup, which the other witnesses ask too), ``ledger.h`` (records),
``membership.h``, ``notes.h``, ``settled.h``, ``arrivals.h``, ``pieces.h``, ``offences.h``, ``intruders.h``,
``intervals.h``, ``renames.h``, ``waits.h`` and ``culprits.h``. Reader: ``ledger.py`` (also the claims, which the
programs of all witnesses ask), ``witness.py`` (events), ``watch.py`` (a window), ``members.py``, ``published.py``,
``owners.py``, ``rows.py``. Decoder: ``decoder.py``, ``records.py``, ``tally.py``, ``nesting.py``, ``trails.py``,
``shares.py``, ``bins.py``, ``delays.py``, ``timeline.py``.
Tests in ``tests/unit/probes``: ``test_tally.py``, ``test_nesting.py``, ``test_trails.py``, ``test_shares.py``,
``test_records.py``, ``test_delays.py``, ``test_timeline_bins.py``; in
``tests/integration``: ``test_probe_contract.py``, ``test_probe_recall.py``,
``test_membership_*.py``, ``test_who_took_the_time.py``.
"""
