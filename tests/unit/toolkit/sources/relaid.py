"""Public captures as another driver and another runtime would have laid them out: the same node, other paths.

Source of the layouts: kubernetes ``pkg/kubelet/cm/cgroup_manager_linux.go`` (``ToSystemd``: "-" in a UID becomes "_"),
containerd's ``getCgroupsPath`` (``SLICE:cri-containerd:ID``), CRI-O's ``crio-ID.scope`` with ``crio-conmon-ID.scope``.
"""

from __future__ import annotations

import re

from tests.unit.toolkit.sources.edited import Files

_PLACE = re.compile(
    r"kubepods(?:/(?P<qos>burstable|besteffort))?/pod(?P<uid>[0-9a-f-]+)(?:/(?P<id>[0-9a-f]{64}))?(?=/|\"|$|\\n)"
)
_RUNTIMES = re.compile(r'("cgroupsPath": ?")([^"]+)"')
_CLASS = re.compile(r"(?<=/)kubepods/(burstable|besteffort)(?=/[a-z]|\"|$)")
_TOP = re.compile(r"(?<=/)kubepods(?=/[a-z]+[._]|\"|$)")


def systemd(files: Files, prefix: str) -> Files:
    """Lay a capture of the cgroupfs driver out as systemd does. :param prefix: of the containers' scopes."""
    return {_paths(name, prefix): _content(name, data, prefix) for name, data in files.items()}


def _content(name: str, data: bytes, prefix: str) -> bytes:
    if name.endswith(".json"):
        text = _RUNTIMES.sub(lambda found: f'{found[1]}{_runtime_path(found[2], prefix)}"', data.decode())
        return _paths(text, prefix).encode()
    if name == "kubelet/config.yaml":
        return data.replace(b'cgroupDriver: "cgroupfs"', b'cgroupDriver: "systemd"')
    return data


def _runtime_path(path: str, prefix: str) -> str:
    found = _PLACE.search(path)
    assert found is not None
    return f"{_slice(found)}:{prefix.rstrip('-')}:{found['id']}"


def _slice(found: re.Match[str]) -> str:
    qos = f"-{found['qos']}" if found["qos"] else ""
    return f"kubepods{qos}-pod{found['uid'].replace('-', '_')}.slice"


def _paths(text: str, prefix: str) -> str:
    def place(found: re.Match[str]) -> str:
        qos = f"kubepods-{found['qos']}.slice/" if found["qos"] else ""
        scope = f"/{prefix}{found['id']}.scope" if found["id"] else ""
        return f"kubepods.slice/{qos}{_slice(found)}{scope}"

    text = _PLACE.sub(place, text)
    text = _CLASS.sub(r"kubepods.slice/kubepods-\1.slice", text)
    return _TOP.sub("kubepods.slice", text)


def cgroup_root(files: Files, root: str) -> Files:
    """Put the pods of a capture below another cgroup, as ``--cgroup-root`` does and a node in a container is."""
    renamed = {
        re.sub(r"^(cgroup/(?:[a-z,]+/)??)kubepods", rf"\1{root}/kubepods", name): data for name, data in files.items()
    }
    return {
        name: data.replace(b"/kubepods", f"/{root}/kubepods".encode()) if name.endswith(".json") else data
        for name, data in renamed.items()
    }


_SCOPE = re.compile(r"(kubepods\.slice/.*-[0-9a-f]{64}\.scope)")


def crun(files: Files) -> Files:
    """Let crun have made the containers of a v2 capture of the systemd driver, as 1.8.1 does.

    Their tasks are in ``container`` below the scope, which alone has CPUs and quota (tests/lab/README.md).
    """
    found = {}
    for name, data in files.items():
        scope = re.fullmatch(rf"(cgroup/{_SCOPE.pattern})/([^/]+)", name)
        if name == "threads.json":
            data = re.sub(rf"{_SCOPE.pattern}(?!/)".encode(), rb"\1/container", data)
        if scope is None:
            found[name] = data
            continue
        found[f"{scope[1]}/container/{scope[3]}"] = data
        bare = {"cpuset.cpus": b"\n", "cpuset.mems": b"\n", "cgroup.procs": b"", "cpu.max": b"max 100000\n"}
        found[name] = bare.get(scope[3], data)
    return found
