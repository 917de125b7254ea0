"""What is odd about the configuration of a machine's kubelet before its options are held against the machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.kubernetes.kubelet_fields import field_words
from toolkit.kubernetes.kubelet_version import series_of
from toolkit.model.isolation import Finding
from toolkit.model.verdict import Outcome
from toolkit.sources.kubelet.running import MachineKubelet


def kubelet_findings(kubelet: MachineKubelet) -> tuple[Finding, ...]:
    """Return the findings: a configuration that is not known, fields that do not exist."""
    return tuple(_findings(kubelet))


def _findings(kubelet: MachineKubelet) -> Iterator[Finding]:
    if kubelet.problem:
        yield Finding(
            id="kubelet-not-read",
            outcome=Outcome.UNDECIDED,
            path=kubelet.source,
            value=kubelet.problem,
            breaks="Which CPUs can become exclusive, and which are reserved, is not known.",
            remedy="Name what it runs with (--kubelet-config), or the CPUs (--exclusive).",
        )
    series = series_of(kubelet.version, kubelet.source) if kubelet.version else None
    for one, text, meant in field_words(kubelet.configuration.odd if kubelet.configuration else (), series):
        yield Finding(
            id="no-such-field",
            outcome=Outcome.SKIPPED,
            path=one.where,
            value=text,
            breaks="What was meant by it is not in force.",
            remedy=f"Did you mean {meant}?" if meant else "Take it away, or look up its name.",
        )
