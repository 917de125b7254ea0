"""The kubelet's files of allocations: believed where their checksum is that of their content."""

from __future__ import annotations

import json

import pytest

from tests.unit.toolkit.sources.edited import DATA, Files, allocations, capture, document, failed, rows
from tests.unit.toolkit.sources.made_node import allocations_text
from toolkit.allocation.checkpoint.format import text_checksum
from toolkit.sources.kubelet.pods import allocations as read_allocations
from toolkit.sources.kubelet.pods import problems
from toolkit.sources.kubelet.reading import reading_of

ALLOCATED, ACTUATED = "kubelet/allocated_pods_state", "kubelet/actuated_pods_state"
RECORDED = sorted(path.name for path in DATA.glob("D-*.tar.gz"))


@pytest.mark.parametrize("name", RECORDED)
def test_the_checksum_of_recorded_files_is_reproduced(name: str) -> None:
    """A kubelet v1.36.2 wrote them."""
    files = capture(name.removesuffix(".tar.gz"))
    for file in (ALLOCATED, ACTUATED):
        state = json.loads(files[file])
        assert state["checksum"] == text_checksum(state["data"])
    assert problems(reading_of(files)) == (("allocated_pods", ""), ("actuated_pods", ""))


def reasons(files: Files) -> dict[str, str]:
    return {row["part"]: row["reason"] for row in document(files)["missing"]}


def test_edited_values_under_the_old_checksum_are_no_kubelets_word() -> None:
    """They raised a false alarm about limits that were never allocated; each file is one line."""
    files = capture("D-4")
    before = rows(files)
    for file in (ALLOCATED, ACTUATED):
        files[file] = files[file].replace(b"300m", b"600m")
    assert failed(files) == {}
    assert rows(files)["bu-node1/main"]["quota_us"] == before["bu-node1/main"]["quota_us"] == 30_000
    for part in ("allocated_pods", "actuated_pods"):
        assert reasons(files)[part].startswith("the checksum is not that of the content: ")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"data":7,"checksum":1}', '{"data":"{}"}', allocations_text([1])],  # type: ignore[arg-type]
)
def test_a_file_that_cannot_be_read_is_a_line(text: str) -> None:
    files = capture("D-4")
    files[ALLOCATED] = text.encode()
    assert not read_allocations(reading_of(files))
    assert "allocated_pods" in reasons(files)
    assert failed(files) == {}


def test_a_torn_file_is_a_line() -> None:
    files = capture("D-4")
    files[ALLOCATED] = files[ALLOCATED][: len(files[ALLOCATED]) // 2]
    assert "allocated_pods" in reasons(files)


def test_what_a_kubelet_wrote_itself_is_believed() -> None:
    files = capture("D-4")
    with allocations(files) as entries:
        next(iter(entries.values()))["ContainerResources"]["other"] = {}
    assert not problems(reading_of(files))[0][1]
    assert "allocated_pods" not in reasons(files)
