"""What follows a node and what observes it read control files through the same descriptors."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.sources.kubelet.followed_node import made_node
from toolkit.cli import observing_options, watch
from toolkit.host.kept_files import KeptFiles
from toolkit.model.verdict import Outcome


def test_a_file_that_both_read_is_open_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And closed when the watch is over."""
    seen = list[Any]()
    real = KeptFiles.read

    def read(kept: KeptFiles, folder: str, *others: Any) -> list[bytes | None]:
        seen.append(kept)
        return real(kept, folder, *others)

    def watched(_claims: object, _follower: object, window: Any, *_: object) -> tuple[Outcome, list[int]]:
        assert window.kept._most > 0
        seen.append(window.kept)
        return Outcome.PASSED, []

    monkeypatch.setattr(KeptFiles, "read", read)
    monkeypatch.setattr(watch, "_watch", watched)
    monkeypatch.setattr(observing_options, "require_watch", lambda *_, **__: "")
    monkeypatch.setattr(watch, "give_memory_back", lambda: None)
    with made_node() as node:
        words = ["--kubelet", "--root", str(node.root), "--cri", f"unix://{node.root}/c.sock"]
        done = CliRunner().invoke(watch.command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert len(seen) > 1
    assert all(kept is seen[0] for kept in seen)
    assert (seen[0].count, seen[0]._most) == (0, 0)
