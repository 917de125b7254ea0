"""What a comparison of control files with a promise found, and when. Facts only; the rules say what follows."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.verdict import Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A value that was not as promised.

    :param what: the value and the promise, in words. :param when: of which reading, in words; empty: there was but one.
    :param before: whether it was read before the window opened.
    """

    what: str
    when: str = ""
    before: bool = False

    @property
    def text(self) -> str:
        """Both, for a reason."""
        return f"{self.when} {self.what}".lstrip()


@dataclass(slots=True)
class Compared:
    """What the comparison of readings found. ``names``: values that were wrong at any time."""

    wrong: list[Wrong] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    measures: dict[str, Measure] = field(default_factory=dict)
    compared: int = 0

    @property
    def sound(self) -> bool:
        """Whether something was compared, and all of it was read and right."""
        return self.compared > 0 and not self.wrong and not self.unread

    @property
    def wrong_before(self) -> bool:
        """Whether a value was wrong before the window opened."""
        return any(one.before for one in self.wrong)

    def add(self, one: Compared) -> None:
        """Add what another reading found."""
        self.wrong, self.names, self.unread = self.wrong + one.wrong, self.names + one.names, self.unread + one.unread
        self.measures |= one.measures
        self.compared += one.compared
