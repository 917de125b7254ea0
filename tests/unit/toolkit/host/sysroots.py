"""Builds small trees of kernel files for tests; each call says only what matters to its test."""

from __future__ import annotations

from pathlib import Path

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def write(root: Path, files: dict[str, str | int]) -> Path:
    """Write files below the root, folders as needed."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def cpu(number: int, *, core: int = 0, package: int = 0, **topology: str | int) -> dict[str, str | int]:
    """One CPU's topology folder."""
    folder = f"{CPU}/cpu{number}/topology"
    files: dict[str, str | int] = {f"{folder}/core_id": core, f"{folder}/physical_package_id": package}
    return files | {f"{folder}/{name}": value for name, value in topology.items()}


def cache(
    number: int, index: int, *, level: int, shared: str, ident: int | None = 0, size: str = "32768K"
) -> dict[str, str | int]:
    """One cache of a CPU."""
    folder = f"{CPU}/cpu{number}/cache/index{index}"
    files: dict[str, str | int] = {f"{folder}/level": level, f"{folder}/type": "Unified", f"{folder}/size": size}
    files[f"{folder}/shared_cpu_map"] = shared
    return files if ident is None else {**files, f"{folder}/id": ident}


def node(
    root: Path, number: int, cpus: tuple[int, ...], mem_kb: int | None = 1024, distance: str | None = None
) -> None:
    """One NUMA node with its CPU links in both directions, as the kernel makes them."""
    folder = root / NODE / f"node{number}"
    files: dict[str, str | int] = {f"{NODE}/node{number}/cpumap": f"{sum(1 << c for c in cpus):x}"}
    if mem_kb is not None:
        files[f"{NODE}/node{number}/meminfo"] = f"Node {number} MemTotal:       {mem_kb} kB"
    if distance is not None:
        files[f"{NODE}/node{number}/distance"] = distance
    write(root, files)
    for one in cpus:
        (root / CPU / f"cpu{one}").mkdir(parents=True, exist_ok=True)
        (folder / f"cpu{one}").symlink_to(f"../../cpu/cpu{one}")
        (root / CPU / f"cpu{one}" / f"node{number}").symlink_to(f"../../node/node{number}")
