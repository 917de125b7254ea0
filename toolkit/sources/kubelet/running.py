"""The kubelet of a machine, for what asks about the machine's configuration and not about pods: what does it run with?

The process that runs says which file it reads; where none runs the file in its usual place is taken, and it is said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from toolkit.errors import InputError
from toolkit.kubernetes.kubelet_version import series_of
from toolkit.sources.kubelet.configuration import KubeletConfiguration, configuration_in, unread
from toolkit.sources.kubelet.files.live import LiveNode
from toolkit.sources.kubelet.files.process import embedding
from toolkit.sources.kubelet.reading import reading_of
from toolkit.sources.places import Places

NO_PROCESS = "no kubelet runs here"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKubelet:
    """What was found. :param source: where its configuration stands, for people. :param version: empty: not known.

    :param configuration: ``None``: it is not known, because of ``problem``.
    """

    source: str
    configuration: KubeletConfiguration | None = None
    version: str = ""
    problem: str = ""


def machine_kubelet(places: Places) -> MachineKubelet | None:
    """Look for it; ``None``: neither a process nor a configuration is here."""
    node = LiveNode(places)
    node.read_configuration()
    about = json.dumps(node.about()).encode()
    reading = reading_of(node.files | {"capture.json": about}, whole=False)
    runs = node.pid is not None
    if not runs and not reading.config:
        inside = embedding(node.proc)
        if not inside:
            return None
        problem = f"a kubelet runs inside {inside}, whose configuration is not read"
        return MachineKubelet(source=inside, problem=problem)
    files = [file.name for file in reading.config or ()]
    source = " with ".join(files[:1] + [f"{len(files) - 1} drop-ins"] * (len(files) > 1)) or "its command line"
    source = f"the running kubelet's {source}" if runs else f"{source}, {NO_PROCESS}"
    try:
        series_of(reading.kubelet_version, source)
        version = reading.kubelet_version
    except InputError:
        version = ""
    try:
        problem = unread(reading)
        found = None if problem else configuration_in(reading)
    except InputError as error:
        problem, found = str(error), None
    return MachineKubelet(source=source, configuration=found, version=version, problem=problem)
