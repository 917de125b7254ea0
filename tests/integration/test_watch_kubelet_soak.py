"""``pinproof watch --kubelet`` for 30 minutes beside a node at work: 200 pods come and go, an exec each second.

``make soak`` runs it; ``PINPROOF_SOAK_MINUTES`` makes it another length, ``PINPROOF_SEED`` repeats one.
"""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cri_node import Runtime
from tests.integration.cri_runtimes import RUNTIMES, need
from tests.integration.live_node import Kubelet, Watch, watching
from tests.seeds import SEED, SOAK
from toolkit.model.cpuset import CpuSet

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not SOAK, reason="30 minutes: PINPROOF_SOAK=1 (make soak)"),
]
SECONDS = 60.0 * float(os.environ.get("PINPROOF_SOAK_MINUTES", "30"))
PODS_PER_S = 200 / 1800
MOST = 12
"""Pods at one time."""
DRIFTS = 3
PAIR = re.compile(r"cri and cgroup differ from \d+\.\d+ s")
WINDOW_S = 10.0
UNDECIDED_PART = 0.02


@dataclass
class Churn:
    """The kubelet's part: random, in the order in which a kubelet does things."""

    kubelet: Kubelet
    dice: random.Random
    pods: dict[str, tuple[tuple[str, dict[str, Any]], str, int]] = field(default_factory=dict)
    """By uid: pod sandbox, present container, its life."""
    made: int = 0

    def step(self) -> None:
        """Do one thing."""
        alone = [uid for uid in self.pods if uid in self.kubelet.entries]
        if len(self.pods) < 2 or (len(self.pods) < MOST and self.dice.random() < 0.5):
            self._make(own=not alone and self.dice.random() < 0.5)
        elif self.dice.random() < 0.3:
            self._restart(self.dice.choice(sorted(self.pods)))
        else:
            self._remove(self.dice.choice(sorted(self.pods)))

    def each_second(self) -> None:
        """A probe in one container."""
        if self.pods:
            self.kubelet.node.execute(self.pods[self.dice.choice(sorted(self.pods))][1])

    def _make(self, *, own: bool) -> None:
        uid = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        self.made += 1
        kubelet = self.kubelet
        if own:
            kubelet.own(uid, CpuSet.of((1,)))
        sandbox = kubelet.node.pod(uid, f"pod{self.made}", "" if own else "/besteffort")
        container = kubelet.run_own(sandbox, uid) if own else self._shared(sandbox, 0)
        if not own:
            kubelet.shared[uid] = container
        self.pods[uid] = (sandbox, container, 0)

    def _shared(self, sandbox: tuple[str, dict[str, Any]], attempt: int) -> str:
        return self.kubelet.node.container(
            sandbox,
            "main",
            attempt=attempt,
            cpu_period=100000,
            cpu_shares=2,
            cpuset_cpus=str(self.kubelet.pool),
        )

    def _restart(self, uid: str) -> None:
        sandbox, container, life = self.pods[uid]
        kubelet = self.kubelet
        kubelet.node.stop_container(container)
        if uid in kubelet.entries:
            new = kubelet.run_own(sandbox, uid, attempt=life + 1)
        else:
            new = kubelet.shared[uid] = self._shared(sandbox, life + 1)
        self.pods[uid] = (sandbox, new, life + 1)

    def _remove(self, uid: str) -> None:
        sandbox, _, _ = self.pods.pop(uid)
        self.kubelet.shared.pop(uid, None)
        self.kubelet.node.remove_pod(sandbox[0])
        if self.kubelet.entries.pop(uid, None):
            self.kubelet.save()
            self.kubelet.reconcile()  # a kubelet takes the CPUs back and widens the pool in one pass


@pytest.fixture(params=RUNTIMES, ids=str)
def kubelet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    runtime: Runtime = request.param
    online = need(runtime)
    folder = tmp_path_factory.mktemp("s")
    with runtime.start(folder / "n") as node:
        yield Kubelet(node, folder / "kubelet", online)


def _churn(churn: Churn, watch: Watch, until_s: float) -> None:
    step_s = time.monotonic()
    while time.monotonic() < until_s:
        assert watch.process.poll() is None, watch.said()[-3000:]
        if time.monotonic() >= step_s:
            step_s += 1 / PODS_PER_S / 2
            churn.step()
        churn.each_second()
        time.sleep(1.0)


def _named(watch: Watch, before: int) -> bool:
    return any(window > before for window, *_ in watch.failed("layers-agree"))


def test_no_false_alarm_and_every_drift(kubelet: Kubelet, tmp_path: Path) -> None:
    """Only the drifts fail, each by ``layers-agree`` about its subject; few windows are undecided."""
    kubelet.start()
    churn = Churn(kubelet, random.Random(SEED))
    planted: list[tuple[int, str]] = []
    with watching(kubelet, tmp_path / "w", WINDOW_S) as watch, kubelet.reconciling():
        for _ in range(DRIFTS):
            _churn(churn, watch, time.monotonic() + SECONDS / DRIFTS)
            uid = sorted(churn.pods)[0]
            sandbox, container, _ = churn.pods[uid]
            wrong = "0" if uid not in kubelet.entries and len(kubelet.pool) > 1 else "0-1"
            file = kubelet.node.cpuset(container)
            right = file.read_text()
            before = len(watch.windows())
            file.write_text(wrong)
            watch.wait_until(partial(_named, watch, before), "the drift is reported")
            file.write_text(right)
            watch.pass_windows(2)
            planted.append((before + 1, f"{sandbox[1]['metadata']['name']}/main"))
    print(f"{churn.made} pods made, {len(watch.windows())} windows")
    subjects = {subject for _, subject in planted}
    assert [row for row in watch.failed() if row[2] not in subjects] == [], "a false alarm"
    found = watch.failed("layers-agree")
    assert {subject for _, _, subject, *_ in found} == subjects
    # The pair of layers that differs, and since when: in the window of the write, or the one after it.
    for before, subject in planted:
        first = next(row for row in found if row[2] == subject and row[0] >= before)
        assert first[0] <= before + 1, (planted, first)
        # Of a write at the edge of a window the one before says since when, undecided: no file was read after it.
        edge = [
            row["reason"]
            for row in watch.verdicts()
            if (row["rule"], row["subject"], row["window"]) == ("layers-agree", subject, first[0] - 1)
        ]
        assert any(PAIR.search(reason) for reason in (first[4], *edge)), (first, edge)
    undecided = [row for row in watch.verdicts() if row["outcome"] == "undecided"]
    windows = {row["window"] for row in undecided}
    why = sorted({f"{row['rule']} {row['subject']}: {row['reason'][:200]}" for row in undecided})
    assert len(windows) <= max(1, UNDECIDED_PART * len(watch.windows())), "\n".join(why)
