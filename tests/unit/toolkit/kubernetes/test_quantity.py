"""Kubernetes quantities: reading, the canonical form, and the integer views."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import InputError
from toolkit.kubernetes.quantity import MAX_VALUE, NANO, Family, Quantity


@pytest.mark.parametrize(
    ("text", "canonical", "value", "milli"),
    [
        ("0", "0", 0, 0),
        ("1", "1", 1, 1000),
        ("1000m", "1", 1, 1000),
        ("1500m", "1500m", 2, 1500),
        ("1.5", "1500m", 2, 1500),
        (".5", "500m", 1, 500),
        ("5.", "5", 5, 5000),
        ("1.5Gi", "1536Mi", 1536 << 20, 1536 * 1000 << 20),
        ("1024", "1024", 1024, 1_024_000),
        ("1Gi", "1Gi", 1 << 30, 1000 << 30),
        ("2048Ki", "2Mi", 2 << 20, 2000 << 20),
        ("1e3", "1e3", 1000, 1_000_000),
        ("2000k", "2M", 2_000_000, 2_000_000_000),
        ("3n", "3n", 1, 1),
        ("0.1n", "1n", 1, 1),
        ("-5Mi", "-5Mi", -5 << 20, -5000 << 20),
        ("0.5", "500m", 1, 500),
    ],
)
def test_reads_and_prints_the_canonical_form(text: str, canonical: str, value: int, milli: int) -> None:
    """Each text has one canonical form; whole and thousandth views round away from zero."""
    quantity = Quantity.parse(text)

    assert canonical == str(quantity)
    assert value == quantity.value
    assert milli == quantity.milli


@pytest.mark.parametrize("text", ["", "m", ".", "1Gi ", "1 Gi", "1gi", "1GB", "1.2.3", "--1", "0x1", "1Mib", "\u0661"])
def test_refuses_what_the_api_refuses(text: str) -> None:
    """What does not have the form of a quantity is refused with the API's sentence."""
    with pytest.raises(InputError, match="quantities must match the regular expression"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1K", "1mi", "1i", "1e", "1ee3", "1Ki5", "1Kk", "-3.01i", "-3.01e-"])
def test_a_suffix_that_is_none(text: str) -> None:
    """Letters that suffixes are made of, in an order that makes none. Source: apimachinery resource/quantity.go."""
    with pytest.raises(InputError, match="unable to parse quantity's suffix"):
        Quantity.parse(text)


def test_a_sum_takes_the_family_of_its_first_part_that_is_not_zero() -> None:
    """A kubelet's message prints 1Gi + 100Mi as 1124Mi, starting from a decimal zero."""
    total = Quantity() + Quantity.parse("1Gi") + Quantity.parse("100Mi")

    assert str(total) == "1124Mi"
    assert total.family is Family.BINARY_SI


def test_wide_amounts_have_no_64_bit_view() -> None:
    """The Memory Manager cannot use fractional binary amounts and very long numbers, as the API keeps them."""
    assert Quantity.parse("1Gi").as_int64 == 1 << 30
    assert Quantity.parse("1.5Gi").as_int64 is None
    assert Quantity.parse("100000Gi").as_int64 is None
    assert Quantity.parse("1500m").as_int64 is None
    assert Quantity.parse("9" * 30).value == MAX_VALUE


def test_hostile_lengths_and_exponents_cost_nothing() -> None:
    """Amounts are capped, and texts beyond any use are refused."""
    assert Quantity.parse("1e9999").value == MAX_VALUE
    assert Quantity.parse("1e-9999").nano == 1
    assert str(Quantity.parse("9" * 900)) == str(MAX_VALUE)
    with pytest.raises(InputError):
        Quantity.parse("9" * 5000)


@settings(deadline=None)
@given(st.integers(-(2**40), 2**40), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "u"]))
def test_the_canonical_form_is_the_same_amount(number: int, suffix: str) -> None:
    """Writing and reading again changes neither amount nor text."""
    quantity = Quantity.parse(f"{number}{suffix}")
    again = Quantity.parse(str(quantity))

    assert quantity.nano == again.nano
    assert str(quantity) == str(again)


@settings(deadline=None)
@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_sums_are_exact(left: int, right: int) -> None:
    """No digit is lost in a sum."""
    assert (Quantity.of(left) + Quantity.of(right)).nano == (left + right) * NANO
