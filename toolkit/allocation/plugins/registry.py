"""Finding plugins by name: the built-in ones and those that installed packages announce.

A package announces a plugin in its metadata, group ``pinproof.cpu_plugins``; the entry is a factory that takes the
machine and the plugin's settings (plain data from the configuration) and returns a
:class:`toolkit.allocation.plugins.protocol.CpuPlugin`.
Source: Python Packaging User Guide, "Entry points specification"; ``docs/specification.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from toolkit.allocation.machine import Machine
from toolkit.allocation.plugins.core_classes import CoreClassPlugin, classes_by_threads
from toolkit.allocation.plugins.protocol import CpuPlugin
from toolkit.allocation.plugins.static import StaticPlugin
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet

GROUP = "pinproof.cpu_plugins"
Factory = Callable[[Machine, Mapping[str, Any]], CpuPlugin]


def static_plugin(machine: Machine, settings: Mapping[str, Any]) -> CpuPlugin:
    """Build the built-in plugin; its only setting is ``quirks``."""
    _only(settings, "static", {"quirks"})
    return StaticPlugin(quirks=bool(settings.get("quirks", False)))


def core_class_plugin(machine: Machine, settings: Mapping[str, Any]) -> CpuPlugin:
    """Build the core class plugin from ``classes`` (name -> CPU list), ``required`` and ``preferred``."""
    _only(settings, "core-classes", {"classes", "required", "preferred"})
    listed = _texts(settings, "classes")
    classes = {name: CpuSet.parse(cpus, f"core class {name}") for name, cpus in listed.items()}
    return CoreClassPlugin(
        classes or classes_by_threads(machine),
        required=_texts(settings, "required"),
        preferred=_texts(settings, "preferred"),
    )


BUILT_IN: Mapping[str, Factory] = {"static": static_plugin, "core-classes": core_class_plugin}


def plugin_names() -> tuple[str, ...]:
    """Return the names of all plugins that can be loaded."""
    return tuple(sorted({*BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))}))


def load_plugin(name: str, machine: Machine, settings: Mapping[str, Any] | None = None) -> CpuPlugin:
    """Build a plugin.

    :raises InputError: unknown, not loadable, or not a plugin.
    """
    factory = BUILT_IN.get(name)
    if factory is None:
        factory = _load(next((entry for entry in entry_points(group=GROUP) if entry.name == name), None), name)
    plugin = factory(machine, settings or {})
    if not isinstance(plugin, CpuPlugin):
        raise InputError(f"CPU plugin {name}", type(plugin).__name__, "an object with the eight extension points")
    return plugin


def _load(entry: EntryPoint | None, name: str) -> Factory:
    if entry is None:
        raise InputError("CPU plugin", repr(name)[:60], "one of " + ", ".join(plugin_names()))
    try:
        factory = entry.load()
    except Exception as error:
        # Third-party code: whatever it raises on import, the user gets one line.
        raise InputError(f"CPU plugin {name}", f"{entry.value}: {type(error).__name__}: {error}") from error
    if not callable(factory):
        raise InputError(f"CPU plugin {name}", f"{entry.value} is not callable", "a factory")
    return factory  # type: ignore[no-any-return]


def _only(settings: Mapping[str, Any], name: str, known: set[str]) -> None:
    unknown = sorted(set(settings) - known)
    if unknown:
        raise InputError(f"CPU plugin {name}", f"unknown setting {unknown[0]!r}", "one of " + ", ".join(sorted(known)))


def _texts(settings: Mapping[str, Any], key: str) -> dict[str, str]:
    found = settings.get(key, {})
    if not isinstance(found, Mapping) or not all(isinstance(item, str) for pair in found.items() for item in pair):
        raise InputError(f"CPU plugin core-classes, {key}", repr(found)[:60], "a mapping of texts")
    return dict(found)
