"""Files of allocation scenarios (``kubelet-resource-manager-vectors/1``): read strictly, one scenario at a time.

Source: ``docs/simulate-format.md`` "File format".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.allocation.device.manager import Device, read_devices
from toolkit.allocation.machine import Machine
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_vector_pod
from toolkit.model.serde import read_text
from toolkit.text import json_text
from toolkit.text.wording import kind_of

FORMAT = "kubelet-resource-manager-vectors/1"
EVENTS = ("add", "start_all", "start", "remove", "restart_kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. Which fields count depends on ``kind`` (one of :data:`EVENTS`)."""

    kind: str
    pod: Pod | None = None
    uid: str = ""
    container: str = ""
    config: NodeConfig | None = None
    machine: Machine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorScenario:
    """One scenario. :param expect: the recorded outcome as plain data, ``None`` if the file has none."""

    id: str
    machine: Machine
    config: NodeConfig
    events: tuple[Event, ...]
    devices: tuple[Device, ...] = ()
    tags: tuple[str, ...] = ()
    description: str = ""
    expect: Mapping[str, Any] | None = None


def read_vectors(path: Path) -> Iterator[VectorScenario]:
    """Read a file's scenarios.

    :raises InputError: not this format; one line that names the scenario and the place.
    """
    where = str(path)
    try:
        data = json_text.load(read_text(path, f"a scenario file ({FORMAT})"), where)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(where, f"not JSON: {error}"[:120], FORMAT) from None
    except ValueError:
        raise InputError(where, "not JSON: a number is too long", FORMAT) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(where, _format_of(data), FORMAT)
    machines = {
        name: Machine.from_vector(machine, f"{where}: machine {name}")
        for name, machine in _mapping(data.get("machines"), f"{where}: machines").items()
    }
    scenarios = data.get("scenarios")
    if not isinstance(scenarios, list):
        raise InputError(where, "no list of scenarios", "scenarios: [...]")
    seen: set[str] = set()
    for i, item in enumerate(scenarios):
        scenario = _scenario(_mapping(item, f"{where}: scenarios[{i}]"), machines, f"{where}: scenarios[{i}]")
        if scenario.id in seen:
            raise InputError(where, f"scenario {scenario.id!r} twice", "every id once")
        seen.add(scenario.id)
        yield scenario


def _format_of(data: object) -> str:
    if not isinstance(data, dict):
        return kind_of(data)
    return f"format {data['format']!r}"[:60] if data.get("format") is not None else "no format"


def _scenario(item: dict[str, Any], machines: Mapping[str, Machine], where: str) -> VectorScenario:
    name = item.get("id")
    if not isinstance(name, str) or not name:
        raise InputError(where, "no id", "a scenario with an id")
    where = f"{where} ({name[:60]})"
    events = item.get("events", [])
    if not isinstance(events, list):
        raise InputError(f"{where}.events", kind_of(events), "a list")
    tags = item.get("tags", [])
    expect = item.get("expect")
    return VectorScenario(
        id=name,
        machine=_machine(item.get("machine"), machines, f"{where}.machine"),
        config=read_settings(item.get("kubelet"), f"{where}.kubelet"),
        events=tuple(_event(event, machines, f"{where}.events[{n}]") for n, event in enumerate(events)),
        devices=read_devices(item.get("devices"), f"{where}.devices"),
        tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
        description=str(item.get("description", "")),
        expect=None if expect is None else _mapping(expect, f"{where}.expect"),
    )


def _event(data: object, machines: Mapping[str, Machine], where: str) -> Event:
    item = _mapping(data, where)
    if len(item) != 1 or next(iter(item)) not in EVENTS:
        raise InputError(where, f"keys {', '.join(map(str, item))[:60]!r}", f"exactly one of {', '.join(EVENTS)}")
    kind, value = next(iter(item.items()))
    if kind == "add":
        return Event(kind=kind, pod=read_vector_pod(value, f"{where}.add"))
    if kind == "start":
        start = _mapping(value, f"{where}.start")
        return Event(kind=kind, uid=str(start.get("pod")), container=str(start.get("container")))
    if kind != "restart_kubelet":
        return Event(kind=kind, uid=str(value))
    change = _mapping(value, f"{where}.{kind}")
    config = None
    if change.get("kubelet") is not None:
        config = read_settings(change["kubelet"], f"{where}.{kind}.kubelet")
    machine = None
    if change.get("machine") is not None:
        machine = _machine(change["machine"], machines, f"{where}.{kind}.machine")
    return Event(kind=kind, config=config, machine=machine)


def _machine(name: object, machines: Mapping[str, Machine], where: str) -> Machine:
    if not isinstance(name, str) or name not in machines:
        raise InputError(where, repr(name)[:60], "one of the file's machines")
    return machines[name]


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(where, kind_of(value), "a mapping")
    return value
