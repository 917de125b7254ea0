"""Run directories that a test fills stage by stage, over what is there: the product writes one as a whole, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit import store
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Verdict


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
