"""Whose a result is: what the machine says, and the versions of what runs on it, each asked as root's own program."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from probes.compiler import programs_digest
from toolkit.errors import InputError
from toolkit.host.environment import read_environment
from toolkit.host.identity import read_identity
from toolkit.host.runtimes import read_runtime
from toolkit.model.evidence import Environment
from toolkit.model.identity import Identity
from toolkit.model.runtimes import RUNTIMES
from toolkit.model.topology import Topology
from toolkit.sources.kubelet.configuration import load_configuration, read_flags
from toolkit.sources.kubelet.files.process import (
    kubelet_arguments,
    kubelet_pid,
    process_named,
    program_version,
    version_of,
)

DAEMONS = ("containerd", "crio", "dockerd", "podman")
"""Of the daemons that make containers, the first that runs is a kubelet's."""


def with_identity(environment: Environment, root: Path, topology: Topology, session: str) -> Environment:
    """Return the environment with whose it is. :param session: the run, or the session that the run belongs to."""
    identity = read_identity(root, topology)
    return replace(environment, identity=replace(_with_software(identity, root), session=session))


def _oci_runtime() -> str:
    """Return the first of the runtimes that are known here which says its version, with its name."""
    found = (read_runtime(name) for name, kind in RUNTIMES.items() if kind.program)
    return next((f"{one.name} {one.version}" for one in found if one.version), "")


def environment_here(session: str, topology: Topology, root: Path = Path("/")) -> Environment:
    """Read the machine, and whose it is, for the index of a session."""
    return with_identity(read_environment(root, topology), root, topology, session)


def _with_software(identity: Identity, root: Path) -> Identity:
    kubelet, runtime, oci_runtime, gates = _running(root, identity.boot_id)
    return replace(
        identity,
        kubelet=kubelet,
        runtime=runtime,
        oci_runtime=oci_runtime,
        feature_gates=dict(gates),
        programs=programs_digest(),
    )


@functools.lru_cache(maxsize=4)
def _running(root: Path, _boot_id: str) -> tuple[str, str, str, tuple[tuple[str, bool], ...]]:
    """Return the versions of kubelet, runtime and OCI runtime, and the gates.

    Asked once, not for each run of a session: each is a program that is started.
    """
    proc = root / "proc"
    pid = kubelet_pid(proc)
    kubelet = "" if pid is None else version_of(pid, proc)
    runtime = ""
    for name in DAEMONS:
        found = process_named(proc, name)
        if found is not None:
            runtime = f"{name} {program_version(found, proc)}".strip()
            break
    oci_runtime = _oci_runtime() if root == Path("/") else ""
    return kubelet, runtime, oci_runtime, tuple(sorted(_gates(proc).items()))


def _gates(proc: Path) -> Mapping[str, bool]:
    """Return the gates that the running kubelet's file and flags set; drop-in files are not looked at."""
    arguments = kubelet_arguments(proc)
    if arguments is None:
        return {}
    with suppress(InputError, OSError):
        named = read_flags(arguments).config_file
        path = (proc.parent / named.lstrip("/")) if named else None
        given = load_configuration(path, None, arguments).fields.get("featureGates")
        if isinstance(given, Mapping):
            return {str(name): bool(on) for name, on in given.items()}
    return {}
