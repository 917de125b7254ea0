"""The BTF reader, on images made here by hand, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.toolkit.host.btf_image import CONST, FLAG, INT, STRUCT, UNION, Image
from toolkit.errors import InputError
from toolkit.host.btf import Btf, BtfMember


def sample(order: str = "<") -> Image:
    """Two structs, an anonymous union reached through const, a bit field."""
    image = Image(order)
    image.add(INT, "int", 4, extra=b"\0" * 4)  # 1
    image.add(UNION, "", 8, (("inner", 1, 0), ("other", 1, 32)))  # 2
    image.add(CONST, "", 2)  # 3
    image.add(STRUCT, "task", 32, (("head", 1, 0), ("", 3, 64), ("tail", 1, 192)))  # 4
    image.add(STRUCT, "bits", 8, (("plain", 1, 0), ("flag", 1, 1 << 24 | 37)), flag=FLAG)  # 5
    image.add(STRUCT, "subtask", 4, (("tail", 1, 0),))  # 6: ends with the name of another struct
    return image


@pytest.mark.parametrize("order", ["<", ">"])
def test_members_are_found(order: str) -> None:
    """Plain members, members of anonymous inner types, and bit fields, in both byte orders."""
    btf = Btf(sample(order).data())
    assert btf.member("task", "head") == BtfMember(0, 0)
    assert btf.member("task", "tail") == BtfMember(192, 0)
    assert btf.member("task", "other") == BtfMember(96, 0)
    assert btf.member("bits", "flag") == BtfMember(37, 1)
    assert btf.member("task", "tail").byte_offset == 24  # type: ignore[union-attr]
    assert btf.member("subtask", "tail") == BtfMember(0, 0)


def test_functions_are_found_by_their_number() -> None:
    """A function has the number of its own type, not that of a struct or prototype of the same name."""
    image = sample()
    image.add(13, "", 1)  # 7: a prototype
    image.add(STRUCT, "run", 0)  # 8
    image.add(12, "run", 7)  # 9: the function
    btf = Btf(image.data())

    assert (btf.function_id("run"), btf.function_id("task"), btf.function_id("absent")) == (9, None, None)


def test_tracepoints_are_found_by_their_number() -> None:
    """A tracepoint is the typedef that the kernel makes for it, not a function of that name."""
    image = sample()
    image.add(13, "", 1)  # 7: a prototype
    image.add(12, "btf_trace_run", 7)  # 8: a function
    image.add(8, "btf_trace_run", 7)  # 9: the tracepoint
    btf = Btf(image.data())

    assert (btf.tracepoint_id("run"), btf.tracepoint_id("task"), btf.tracepoint_id("absent")) == (9, None, None)


def test_what_is_not_there_is_not_found() -> None:
    """No struct, no member, the name of a type that is no struct, and the empty name are not found."""
    btf = Btf(sample().data())
    assert not btf.has_struct("nothing")
    assert not btf.has_struct("int")
    assert not btf.has_struct("")
    assert not btf.has_member("task", "nothing")
    assert not btf.has_member("nothing", "head")
    assert not btf.has_member("task", "flag")
    assert not btf.has_member("ask", "head"), "the end of a name is another name"


def test_a_struct_that_holds_itself_ends() -> None:
    """A broken image whose anonymous member is the struct itself does not recurse for ever."""
    image = Image()
    image.add(STRUCT, "loop", 8, (("", 1, 0),))
    assert Btf(image.data()).member("loop", "x") is None


@pytest.mark.parametrize(
    "data",
    [b"", b"\x9f\xeb", b"ELF" * 20, sample().data()[:-30], sample().data()[:24]],
    ids=["empty", "magic only", "other file", "no strings", "header only"],
)
def test_what_is_no_btf_is_refused(data: bytes) -> None:
    """A file that is not BTF or is cut short is one clear line."""
    with pytest.raises(InputError, match="BTF"):
        Btf(data, "vmlinux")


def test_an_unknown_kind_is_refused() -> None:
    """A kind that this reader does not know has an unknown length: going on would be guessing."""
    image = sample()
    image.add(25, "future", 0)
    with pytest.raises(InputError, match="kind 25"):
        Btf(image.data())


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damage_is_an_input_error_or_harmless(data: st.DataObject) -> None:
    """However the bytes are damaged, the answer is a value or an input error."""
    image = bytearray(sample().data())
    for _ in range(data.draw(st.integers(1, 6))):
        image[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))
    try:
        btf = Btf(bytes(image))
    except InputError:
        return
    assert btf.has_member("task", "inner") in (True, False)
