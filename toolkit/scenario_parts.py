"""Parts of a scenario document that stand by themselves: what a machine must have, which CPUs a container must get."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator
from pydantic.alias_generators import to_camel

from toolkit.errors import InputError
from toolkit.kubernetes.documents import quantity
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.scenario import MEMORY_WORDS, ONLINE

Count = Annotated[int, Field(ge=1, strict=True)]
_Amount = Annotated[str, Field(pattern="^=")]
"""What depends on the machine, as under ``resources`` of pods; planning reads it."""


class ScenarioPart(BaseModel):
    """Keys in camel case, and none that is not known."""

    model_config = ConfigDict(extra="forbid", alias_generator=lambda name: to_camel(name), populate_by_name=True)


class RequiresPart(ScenarioPart):
    """What the machine must have; see :class:`toolkit.model.scenario.Requirements`."""

    cpus: int = Field(default=1, ge=1)
    cores: int = Field(default=1, ge=1)
    numa_nodes: int = Field(default=1, ge=1)
    sockets: int = Field(default=1, ge=1)
    threads_per_core: int = Field(default=1, ge=1)
    l3_groups: int = Field(default=1, ge=1)
    cpus_per_numa_node: int = Field(default=1, ge=1)
    numa_nodes_per_socket: int = Field(default=1, ge=1)
    max_numa_nodes: int | None = Field(default=None, ge=1)
    even_numa_nodes: bool = False
    device_nodes: bool = False
    hugepages_2mib: int = Field(default=0, ge=0, le=1 << 40, alias="hugepages2MiB")
    hugepages_1gib: int = Field(default=0, ge=0, le=1 << 40, alias="hugepages1GiB")
    hugepages_2mib_a_node: int = Field(default=0, ge=0, le=1 << 40, alias="hugepages2MiBPerNode")
    memory_mib: int = Field(default=0, ge=0)
    memory_nodes: int = Field(default=0, ge=0)


def _cpu_list(value: object) -> object:
    """Refuse what is neither a list with CPUs in it nor the word for all of them."""
    try:
        if isinstance(value, str) and (value == ONLINE or CpuSet.parse(value)):
            return value
    except InputError:
        pass
    raise ValueError(f'a CPU list in quotes such as "1,4-5", or {ONLINE}, is expected')


def _memory_nodes(value: object) -> object:
    """Refuse what is neither a list of NUMA nodes nor one of the words."""
    try:
        return value if value in MEMORY_WORDS else _cpu_list(value)
    except ValueError:
        words = ", ".join(MEMORY_WORDS)
        raise ValueError(f'a list of NUMA nodes in quotes such as "0-1", or one of {words} is expected') from None


def _none(value: object) -> object:
    return NO_QUOTA if value == "none" else value


def _bytes(value: object) -> object:
    """Read a limit as pods have it; ``none``: there must be none."""
    if not isinstance(value, str) or value == "none" or value.startswith("="):
        return _none(value)
    return quantity(value).value


_OrNone = Annotated[int, Field(ge=NO_QUOTA, strict=True)] | _Amount


class ExpectationPart(ScenarioPart):
    """What a container must get; see :class:`toolkit.model.scenario.Expectation`."""

    cpus: Annotated[str, BeforeValidator(_cpu_list)] = ""
    same_as: str = ""
    cores: Count | None = None
    uncore_caches: Count | None = None
    numa_nodes: Count | None = None
    whole_numa_nodes: Count | None = None
    nearest_numa_nodes: StrictBool = False
    sockets: Count | None = None
    count: Count | _Amount | None = None
    mems: Annotated[str, BeforeValidator(_memory_nodes)] = ""
    quota_us: Annotated[_OrNone, BeforeValidator(_none)] | None = None
    pod_quota_us: Annotated[_OrNone, BeforeValidator(_none)] | None = None
    shares: Annotated[int, Field(ge=MIN_SHARES, le=MAX_SHARES, strict=True)] | _Amount | None = None
    memory_max: Annotated[_OrNone, BeforeValidator(_bytes)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ExpectationPart:
        if not any(value not in ("", None, False) for value in self.model_dump().values()):
            *most, last = (to_camel(name) for name in type(self).model_fields)
            raise ValueError(f"one of {', '.join(most)} or {last} is expected")
        return self
