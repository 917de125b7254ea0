"""Kubernetes quantities: ``500m``, ``1.5Gi``, ``1e3``; exact, and printed as the kubelet prints them.

A quantity is a whole number of nano-units (finer amounts are rounded away from zero, as the API does) plus the family
of suffixes that it was written with, which decides how a sum is printed in the kubelet's messages.
Source: Kubernetes documentation "Quantity" (kubernetes-api/common-definitions/quantity), canonical form and limits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import InputError

NANO = 10**9
MAX_VALUE = 2**63 - 1
"""Larger amounts are capped to this, says the API."""

MAX_TEXT = 1000
"""No amount needs more characters; a bound keeps a hostile file from costing time."""

_SYNTAX = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([KMGTPE]i|[numkMGTPE]?|[eE][+-]?\d{1,4})", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_REGEX_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LOOKS_RIGHT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eEinumkKMGTP]*[-+]?\d*", re.ASCII)
_SUFFIX_TEXT = "unable to parse quantity's suffix"


class Family(StrEnum):
    """The suffix family of a quantity."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount.

    :param nano: the amount in nano-units.
    :param wide: the API keeps it as an arbitrary-precision decimal (fractional binary amounts, very long numbers).
        Such an amount has no 64-bit view, which the Memory Manager insists on.
    """

    nano: int = 0
    family: Family = Family.DECIMAL_SI
    wide: bool = False

    @classmethod
    def of(cls, value: int, family: Family = Family.DECIMAL_SI) -> Quantity:
        """Build from whole units."""
        return cls(value * NANO, family)

    @classmethod
    def parse(cls, text: str, where: str = "quantity") -> Quantity:
        """Read a quantity.

        :raises InputError: with the API's own sentence about the syntax.
        """
        found = _SYNTAX.fullmatch(text) if len(text) <= MAX_TEXT else None
        if found is None or not (found[2] or found[3]):
            only_suffix = len(text) <= MAX_TEXT and _LOOKS_RIGHT.fullmatch(text) is not None
            raise InputError(where, repr(text[:60]), _SUFFIX_TEXT if only_suffix else _REGEX_TEXT)
        sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
        # Leading zeros carry no precision, and the API drops them before it counts digits.
        digits = len(whole.lstrip("0") or "0") + len(fraction)
        amount = int((whole + fraction) or "0")
        if suffix in _BINARY:
            family, shift, power = Family.BINARY_SI, _BINARY[suffix], 0
            wide = bool(fraction) or 15 - digits - shift * 3 // 10 - 1 < 0
        else:
            exponential = suffix not in _DECIMAL
            family = Family.DECIMAL_EXPONENT if exponential else Family.DECIMAL_SI
            shift, power = 0, int(suffix[1:]) if exponential else _DECIMAL[suffix]
            wide = digits > 18 or power - len(fraction) < -9
        power += 9 - len(fraction)
        nano = (amount << shift) * 10**power if power >= 0 else -(-(amount << shift) // 10**-power)
        nano = min(nano, MAX_VALUE * NANO)
        if wide and family is Family.BINARY_SI and 0 < nano < NANO:
            family = Family.DECIMAL_SI
        return cls(-nano if sign == "-" else nano, family, wide)

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return self._scaled(NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return self._scaled(NANO // 1000)

    @property
    def as_int64(self) -> int | None:
        """Whole units where the amount has an exact 64-bit view, else ``None``."""
        if self.wide or self.nano % NANO or abs(self.nano) > MAX_VALUE * NANO:
            return None
        return self.nano // NANO

    def _scaled(self, unit: int) -> int:
        return -(-self.nano // unit) if self.nano >= 0 else self.nano // unit

    def __add__(self, other: Quantity) -> Quantity:
        """Add; a zero takes over the other's suffix family, as in the API."""
        family = other.family if self.nano == 0 else self.family
        return Quantity(self.nano + other.nano, family, self.wide or other.wide)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        """Write the canonical form: no fraction, the largest suffix that loses nothing."""
        if self.nano == 0:
            return "0"
        binary = self.family is Family.BINARY_SI and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0
        if binary:
            number, step = self.nano // NANO, 0
            while number % 1024 == 0 and step < 6:
                number, step = number // 1024, step + 1
            return f"{number}{_BINARY_SUFFIX[step]}"
        number, power = self.nano, -9
        while number % 1000 == 0 and power < 18:
            number, power = number // 1000, power + 3
        if self.family is Family.DECIMAL_EXPONENT:
            return f"{number}e{power}" if power else str(number)
        return f"{number}{_DECIMAL_SUFFIX[power]}"


ZERO = Quantity()
