"""What the tests of the alignment rules share."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import claim_db, cpus
from toolkit.model.claims import Alignment, Claim
from validators.rules import llc_alignment, numa_alignment, smt_alignment, socket_alignment

RULES = {
    Alignment.SMT: smt_alignment.RULE,
    Alignment.LLC: llc_alignment.RULE,
    Alignment.NUMA: numa_alignment.RULE,
    Alignment.SOCKET: socket_alignment.RULE,
}


def db(promised: str = "2,6", **changes: object) -> Claim:
    """``db`` on the core 2,6, promised every alignment."""
    return replace(claim_db(cpus=cpus(promised), alignments=tuple(Alignment)), **changes)  # type: ignore[arg-type]
