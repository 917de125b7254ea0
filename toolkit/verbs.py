"""The one list of verbs: what ``pinproof --help`` offers is what ``pinproof doctor`` and ``docs/verbs.md`` list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Need(IntEnum):
    """What a verb cannot do without; each needs what the ones before need."""

    NOTHING = 0
    FILES = 1
    """Files and sockets that belong to root: of a kubelet's node, or of runs of root's."""
    OBSERVE = 2
    """A kernel that can be observed: BPF, BTF, cgroup v2 beside or instead of v1, bcc."""
    APPLY = 3
    """And one on which cgroups of our own can be made: the controllers cpu and cpuset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A module under :mod:`toolkit.cli` that defines a click command, both of this name. :param does: one line."""

    does: str
    needs: Need = Need.NOTHING


VERBS: dict[str, Verb] = {
    "plan": Verb(does="Compute an allocation and explain it."),
    "simulate": Verb(does="Replay allocation scenarios through the model."),
    "run": Verb(does="Apply scenarios here, observe and judge them.", needs=Need.APPLY),
    "conformance": Verb(does="Run the catalogue on this machine.", needs=Need.APPLY),
    "watch": Verb(does="Watch and judge existing cgroups.", needs=Need.OBSERVE),
    "claims": Verb(does="Print the claims of a kubelet, podman, docker, systemd, Slurm, or of a capture."),
    "capture": Verb(does="Bundle the state that a kubelet's node reports.", needs=Need.FILES),
    "inject": Verb(does="Break isolation on purpose, then restore it.", needs=Need.APPLY),
    "judge": Verb(does="Judge a saved run, session or bundle again."),
    "report": Verb(does="Render a saved run or session: table, page (HTML), JSON, JUnit XML, TAP, Sonobuoy."),
    "runs": Verb(does="List what is saved, and remove it."),
    "compare": Verb(does="Compare runs or sessions: the regression gate."),
    "fleet": Verb(does="Give one answer about many nodes, from their results."),
    "bundle": Verb(does="Put a run or session into one signed file, with a statement."),
    "status": Verb(does="Say in one line how the last window came out."),
    "rules": Verb(does="List the rules."),
    "explain": Verb(does="Explain what a rule checks and how to break it."),
    "topology": Verb(does="Show packages, NUMA nodes, caches, cores, threads and devices."),
    "doctor": Verb(does="Show what this host supports, and how to get what is missing."),
    "cleanup": Verb(does="Undo what dead runs left behind.", needs=Need.FILES),
}
