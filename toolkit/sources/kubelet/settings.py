"""What claims need of the configuration that a kubelet runs with, from a reading of its node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from toolkit.allocation.cpu.options import strict_cpu_reservation
from toolkit.errors import InputError
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.go_text import GoError, parse_bool
from toolkit.kubernetes.kubelet_fields import OddField
from toolkit.kubernetes.kubelet_version import is_modelled, series_of, warning
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.configuration import DEFAULT_RECONCILE_S, KubeletConfiguration, configuration_of
from toolkit.sources.kubelet.flags import read_flags
from toolkit.text.names import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What claims need of the configuration. :param problem: why it is not known; empty: it is.

    :param reserved_problem: why it is not known which CPUs are reserved, where the configuration gives an amount.
    """

    config: NodeConfig = field(default_factory=NodeConfig)
    reserved: CpuSet = field(default_factory=CpuSet)
    strict: bool = False
    reconcile_s: float = DEFAULT_RECONCILE_S
    problem: str = ""
    reserved_problem: str = ""
    odd: tuple[OddField, ...] = ()
    """Fields of its files that no kubelet has, or not each."""
    given: FeatureGates = field(default_factory=FeatureGates)
    """The gates that are set, whatever those of the kubelet's version are by default."""

    @property
    def reserved_known(self) -> bool:
        """Whether :attr:`reserved` is what the kubelet reserves."""
        return not (self.problem or self.reserved_problem)

    @property
    def union_known(self) -> bool:
        """Whether it is known which CPUs pool and assignments must make up: without strictness all of them."""
        return not self.problem and (self.reserved_known or not self.strict)


def unread(reading: NodeReading) -> str:
    """Say why the configuration is not known; nothing where it is. A part of it is none: what was not read may decide.

    :raises InputError: the command line is wrong.
    """
    if reading.config and not reading.drop_ins_alone:
        return _missed(reading)
    if reading.kubelet_flags is None:
        return "the kubelet's configuration was not read"
    named = read_flags(reading.kubelet_flags).config_file
    return f"{printable(named)} was not read, which the kubelet's command line names" if named else _missed(reading)


def _missed(reading: NodeReading) -> str:
    """Return what the node's reader says of a file or a drop-in that it could not read."""
    return next((part.reason for part in reading.missing if part.part == "config"), "")


def configuration_in(reading: NodeReading, where: str = "") -> KubeletConfiguration:
    """Return what the kubelet runs with. :param where: stands before the names of its files.

    :raises InputError: as :func:`toolkit.sources.kubelet.configuration.read_configuration`.
    """
    files = tuple((f"{where}{file.name}", file.text) for file in reading.config or ())
    base = files[0] if files and not reading.drop_ins_alone else None
    return configuration_of(base, files if base is None else files[1:], tuple(reading.kubelet_flags or ()))


def settings(reading: NodeReading) -> Settings:
    """Return the settings in force; where the configuration cannot be read the defaults, and the problem."""
    try:
        if problem := unread(reading):
            return Settings(problem=problem)
        found = configuration_in(reading)
        reserved = CpuSet.parse(found.node.reserved_system_cpus, "reservedSystemCPUs")
    except InputError as error:
        return Settings(problem=str(error))
    try:
        strict = parse_bool(found.node.cpu_manager_policy_options.get(strict_cpu_reservation.OPTION.name, "false"))
    except GoError:
        strict = False  # No kubelet starts with it.
    config = replace(found.node, feature_gates=_gates(found.node.feature_gates, reading.kubelet_version))
    given = found.node.feature_gates
    return Settings(
        config=config,
        reserved=reserved,
        strict=strict,
        reconcile_s=found.reconcile_period_s,
        given=given,
        odd=found.odd,
    )


def _gates(given: FeatureGates, version: str) -> FeatureGates:
    """Return the gates in force: which ones are on by default depends on the version, where that is known."""
    try:
        series = series_of(version, "kubelet_version")
    except InputError:
        return given
    return given.of_series(series)


def other_version(version: str) -> str:
    """Say that the model is of another version than the kubelet; nothing where it is not, or not known."""
    try:
        return "" if not version or is_modelled(version, "kubelet_version") else warning(version, ())
    except InputError:
        return ""
