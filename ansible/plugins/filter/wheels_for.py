"""Which wheels of a folder a node can use."""

from __future__ import annotations

import re
from typing import Any


def wheels_for(wheels: list[dict[str, Any]], version: list[int], machine: str) -> list[dict[str, Any]]:
    """Return the wheels for one version of CPython on glibc and one type of machine.

    :param wheels: as M(ansible.builtin.find) lists files: each has a C(path).
    :param version: of the node's Python, such as C([3, 13]).
    """
    return [wheel for wheel in wheels if _fits(str(wheel["path"]).rpartition("/")[2], version, machine)]


def distributions(wheels: list[dict[str, Any]]) -> list[str]:
    """Return the names of what the wheels are of, each once."""
    return sorted({str(wheel["path"]).rpartition("/")[2].partition("-")[0].lower() for wheel in wheels})


def _fits(name: str, version: list[int], machine: str) -> bool:
    parts = name.removesuffix(".whl").split("-")
    if len(parts) < 5:
        return False
    pythons, abis, platforms = (part.split(".") for part in parts[-3:])
    if "any" not in platforms and not any(
        re.fullmatch(rf"(many)?linux.*_{re.escape(machine)}", one) for one in platforms
    ):
        return False
    major, minor = version
    if any(one in ("py3", f"py{major}{minor}", f"cp{major}{minor}") for one in pythons):
        return True
    stable = [int(one[len(f"cp{major}") :]) for one in pythons if re.fullmatch(rf"cp{major}\d+", one)]
    return "abi3" in abis and any(one <= minor for one in stable)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return them by name."""
        return {"wheels_for": wheels_for, "distributions": distributions}
