"""What all unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.measures import find
from toolkit.model.verdict import Verdict
from toolkit.report import metrics_server
from toolkit.sources import engine_socket, grpc_socket
from toolkit.sources.kubelet.files import endpoint
from validators.rule import Rule

PATIENCE_S = 900.0
"""`make test` runs unit tests at idle priority beside tests that use all CPUs: each may stand still for seconds, and
where the kernel lets a busy cgroup starve all else (docs/facts.md K34) for minutes."""


@pytest.fixture(autouse=True, scope="module")
def _a_starved_thread_is_not_late() -> Iterator[None]:
    """Servers and clients are threads of the test. Tests of lateness set deadlines of their own.

    For a module: integration tests may follow in the same process.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (endpoint, engine_socket, grpc_socket):
            patch.setattr(module, "DEADLINE_S", PATIENCE_S)
        patch.setattr(metrics_server, "REQUEST_TIMEOUT_S", PATIENCE_S)
        yield


@pytest.fixture(autouse=True, scope="session")
def _every_measure_is_declared() -> Iterator[None]:
    """A rule says what each of its measures is: one that it does not declare would be lost in sums and gates."""
    judge = Rule.__call__

    def checked(rule: Rule, claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
        verdicts = judge(rule, claims, evidence)
        found = {name for verdict in verdicts for name in verdict.measures if not find(rule.doc.measures, name)}
        assert not found, f"{rule.id} does not declare {found}"
        return verdicts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "__call__", checked)
        yield
