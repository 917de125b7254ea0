"""Run directories that a test fills stage by stage, over what is there: the product writes one as a whole, and once.

And packed runs, as a session has them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from toolkit import store
from toolkit.model.claims import ClaimSet
from toolkit.model.conformance import ScenarioResult
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Verdict
from toolkit.packed import SUFFIX, write_packed
from toolkit.session.engine.record import recorded


def save_run(run: Path, *, claims: ClaimSet, evidence: Evidence, **stages: Any) -> Path:
    """Save everything up to the evidence. :param stages: as those of :func:`toolkit.store.run_texts`."""
    run.mkdir(parents=True, exist_ok=True)
    for stage, text in store.run_texts(claims=claims, evidence=evidence, **stages).items():
        (run / f"{stage}.json").write_bytes(bytes(text))
    return run


def save_result(run: Path, verdicts: tuple[Verdict, ...], evidence: Evidence) -> None:
    """Save verdicts with what they rest on, whether or not these are the evidence's."""
    saved = store.StoredRun(path=run, claims=ClaimSet(claims=()), evidence=evidence)
    _, texts = store.with_result(saved, {}, verdicts, unknown=None)
    (run / "result.json").write_bytes(bytes(texts["result"]))


def packed_run(session: Path, name: str, claims: ClaimSet, evidence: Evidence) -> ScenarioResult:
    """Pack a run into the folder of a session; return the scenario that it was, without broken promises."""
    record = recorded(session / name, claims=claims, evidence=evidence, rescue=False)
    content = write_packed(session / f"{name}{SUFFIX}", store.run_files({"": record.texts}))
    return ScenarioResult(
        name=name,
        title=name.capitalize(),
        catalogue=("C1",),
        outcome=record.result.outcome,
        reason="because",
        verdicts=record.verdicts,
        packed=f"{name}{SUFFIX}",
        promises="0123",
        blind_spots=record.result.coverage.blind_spots,
        files={f"{name}{SUFFIX}": hashlib.sha256(content).hexdigest()},
    )
