"""CPU sets: the kernel's two text formats and the set algebra, against plain Python sets."""

from __future__ import annotations

import copy
import itertools
import pickle
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from toolkit.errors import InputError
from toolkit.model.cpuset import EMPTY, MAX_ID, CpuSet

unhurried = settings(deadline=None, max_examples=60)
"""Other work runs on the same CPUs: how long one example takes means nothing."""
IDS = st.sets(st.integers(0, 600), max_size=80) | st.sets(st.integers(0, MAX_ID), max_size=8)


@unhurried
@given(IDS)
def test_list_format_round_trip(ids: set[int]) -> None:
    """What is written in the list format is read back as the same set, in ascending order without gaps or overlap."""
    cpus = CpuSet.of(ids)
    text = str(cpus)

    assert CpuSet.parse(text) == cpus
    assert list(cpus) == sorted(ids)
    ends = [tuple(int(end) for end in part.split("-")) for part in text.split(",")] if text else []
    for one, two in itertools.pairwise(ends):
        assert one[-1] + 1 < two[0], "adjacent ranges must be one range"
    assert all(len(end) == 1 or end[0] < end[1] for end in ends)


@unhurried
@given(IDS)
def test_mask_format_round_trip(ids: set[int]) -> None:
    """What is written in the mask format is read back as the same set, in 32-bit words."""
    cpus = CpuSet.of(ids)
    words = cpus.to_mask().split(",")

    assert CpuSet.parse_mask(cpus.to_mask()) == cpus
    assert all(len(word) == 8 for word in words)


@unhurried
@given(IDS, IDS)
def test_algebra_is_that_of_sets(a: set[int], b: set[int]) -> None:
    """Every operation and comparison gives what Python's sets give."""
    x, y = CpuSet.of(a), CpuSet.of(b)

    assert set(x | y) == a | b
    assert set(x & y) == a & b
    assert set(x - y) == a - b
    assert set(x ^ y) == a ^ b
    assert (x <= y, x < y, x == y) == (a <= b, a < b, a == b)
    assert (x >= y, x > y) == (a >= b, a > b)
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert len(x) == len(a)
    assert bool(x) == bool(a)
    assert all((cpu in x) == (cpu in a) for cpu in a | b)
    assert (hash(x) == hash(y)) or x != y


@unhurried
@given(IDS)
def test_values_travel(ids: set[int]) -> None:
    """Pickling and copying keep the value, and JSON holds the list string."""
    cpus = CpuSet.of(ids)
    adapter = TypeAdapter(CpuSet)

    assert pickle.loads(pickle.dumps(cpus)) == cpus
    assert copy.deepcopy(cpus) == cpus
    assert adapter.dump_json(cpus).decode() == f'"{cpus}"'
    assert adapter.validate_json(adapter.dump_json(cpus)) == cpus


@unhurried
@given(st.text(alphabet="0123456789-,:/ \n\tafx(nul)", max_size=30))
def test_any_text_is_read_or_refused_with_one_line(text: str) -> None:
    """No text makes the readers fail in any other way than one clear line."""
    for read in (CpuSet.parse, CpuSet.parse_mask):
        try:
            told = str(read(text))
        except InputError as error:
            told = str(error)
        assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("\n", set()),
        ("0", {0}),
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        (" 1 , 3 ", {1, 3}),
        ("3,1,1-2", {1, 2, 3}),
        ("0-8:2/4", {0, 1, 4, 5, 8}),
        ("0-9:1/5", {0, 5}),
        ("2-3:4/4", {2, 3}),
        ("007", {7}),
        ("65535", {65535}),
    ],
)
def test_list_format_as_the_kernel_reads_it(text: str, expected: set[int]) -> None:
    """Lists, ranges, strides, white space, repeated and unordered ids are read as the kernel reads them."""
    assert set(CpuSet.parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "1-",
        "-1",
        "3-1",
        "1--2",
        "1,,2",
        ",",
        "0x1",
        "1.5",
        "65536",
        "99999999999",
        "0-99999999999",
        "(null)",
        "0-8:2",
        "0-8:0/4",
        "0-8:5/4",
        "0-8:/4",
        "5:1/2",
        "1;2",
        "٣",
        "0-3\x00",
        "1 2",
        "0-8:2/4/6",
    ],
)
def test_wrong_lists_are_refused(text: str) -> None:
    """Anything else is refused, and the line names the place and what was found."""
    with pytest.raises(InputError, match="cpus of db") as caught:
        CpuSet.parse(text, "cpus of db")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f", {0, 1, 2, 3}),
        ("0", set()),
        ("00000000,00000003\n", {0, 1}),
        ("1,00000000", {32}),
        ("80000000,00000000,00000001", {0, 95}),
        ("0xff", set(range(8))),
        ("FF", set(range(8))),
    ],
)
def test_mask_format_as_the_kernel_writes_it(text: str, expected: set[int]) -> None:
    """Words are 32 bits, highest first; upper case and a leading 0x are accepted."""
    assert set(CpuSet.parse_mask(text)) == expected


@pytest.mark.parametrize("text", ["", ",", "g", "123456789", "-1", "1,,1", "0x", "f f", "1," * 4096 + "1"])
def test_wrong_masks_are_refused(text: str) -> None:
    """Anything else is refused with one short line, however long the text."""
    with pytest.raises(InputError) as caught:
        CpuSet.parse_mask(text)
    assert len(str(caught.value)) < 200


def test_sets_do_not_change() -> None:
    """A set can be a dictionary key: it is equal by value and cannot be changed."""
    cpus = CpuSet.parse("0-3")

    with pytest.raises(AttributeError):
        cpus.mask = 1  # type: ignore[misc]
    assert {cpus: 1}[CpuSet.of([3, 2, 1, 0])] == 1
    assert cpus != {0, 1, 2, 3}


def test_texts_of_huge_sets_are_not_kept() -> None:
    """A file may have thousands, each of which has a text of nearly 50 KB: four are more than 128 KiB."""
    every_other = sum(1 << cpu for cpu in range(MAX_ID // 4 * 3, MAX_ID, 2))
    tracemalloc.start()
    try:
        assert len({str(CpuSet(every_other >> shift)) for shift in range(0, 8, 2)}) == 4
        assert tracemalloc.get_traced_memory()[0] < 1 << 17
    finally:
        tracemalloc.stop()


def test_edges() -> None:
    """The first id of nothing is an error, no set holds a negative id, and a negative mask is refused."""
    assert CpuSet.parse("5-9").first() == 5
    assert -1 not in CpuSet.parse("0-9")
    assert CpuSet() == EMPTY
    assert not EMPTY
    with pytest.raises(ValueError):
        EMPTY.first()
    with pytest.raises(ValueError):
        CpuSet(-1)
    with pytest.raises(ValueError):
        CpuSet.of([-1])


@pytest.mark.parametrize("data", [3, None, [0, 1], {"cpus": 1}, True, 0.5, "0-", "70000"])
def test_only_list_strings_are_accepted_in_files(data: object) -> None:
    """In a file a set is its list string; numbers, lists and broken lists are refused."""
    adapter = TypeAdapter(CpuSet)
    with pytest.raises(ValidationError):
        adapter.validate_python(data)
