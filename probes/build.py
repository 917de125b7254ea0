"""From the readings of all witnesses to :class:`Evidence`: pure, without a kernel, without knowing any of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, TypeVar

from probes.readings import Readings
from toolkit.model.evidence import Coverage, Evidence

T = TypeVar("T")


def build(readings: Readings, kind: type[Evidence] = Evidence) -> Evidence:
    """Compose the parts of all witnesses, and what belongs to none of them.

    :param kind: :class:`Evidence`, or a class that has one part more.
    :raises ValueError: two witnesses give the same field.
    """
    frame = readings.frame
    parts = [reading.decode(readings) for reading in readings.all]
    seen = [*frame.spots, *(spot for part in parts for spot in part.spots)]
    spots = tuple(dict.fromkeys(spot for spot in seen if spot.claim is None or frame.is_about(spot.claim)))
    coverage = _composed(
        Coverage,
        [part.coverage for part in parts],
        blind_spots=tuple(dict.fromkeys(spot.text for spot in spots)),
        blindness=spots,
    )
    return _composed(
        kind,
        [part.evidence for part in parts],
        started_at=frame.started_at,
        start_monotonic_ns=frame.start_ns,
        duration_ns=frame.end_ns - frame.start_ns,
        environment=frame.environment,
        transitions=frame.transitions,
        coverage=coverage,
    )


def _composed(kind: type[T], parts: Iterable[Any], **values: object) -> T:
    for part in parts:
        for field in fields(part) if part is not None else ():
            if field.name in values:
                raise ValueError(f"two witnesses give {field.name}")
            values[field.name] = getattr(part, field.name)
    return kind(**values)
