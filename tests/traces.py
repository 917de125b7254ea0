"""A trace read back by Perfetto's own definitions of its messages: what a test of `report --perfetto` looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
"""Kinds of events: TrackEvent.Type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event. :param track: names from the outermost track inwards. :param at_ns: CLOCK_MONOTONIC."""

    track: str
    kind: int
    name: str
    at_ns: int
    words: dict[str, str | int]
    value: int


def read_back(data: bytes) -> list[Event]:
    """Parse a trace: its events, in their order."""
    trace: Any = perfetto_trace_pb2.Trace()  # type: ignore[attr-defined]
    trace.ParseFromString(data)
    names: dict[int, str] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            one = packet.track_descriptor
            names[one.uuid] = f"{names[one.parent_uuid]}/{one.name}" if one.parent_uuid else one.name
    return list(_events(trace, names))


def _events(trace: Any, names: dict[int, str]) -> Iterator[Event]:
    for packet in trace.packet:
        if packet.HasField("track_event"):
            event = packet.track_event
            words = {one.name: one.string_value or one.int_value for one in event.debug_annotations}
            yield Event(track=names[event.track_uuid], kind=event.type, name=event.name, at_ns=packet.timestamp,
                        words=words, value=event.counter_value)  # fmt: skip
