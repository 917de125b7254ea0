"""A real kubelet in guests: cgroup v2 and two NUMA nodes, where the tests of the host's own kubelet have to hold, too.

Guests have neither a runtime nor a compiler nor grpcio: they get the host's, or the programs that ``PINPROOF_KUBELET``,
``PINPROOF_CONTAINERD``, ``PINPROOF_CRIO`` and ``PINPROOF_OCI_RUNTIME`` name; runc and crun of Debian they have.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import programs
from tests.integration import containerd_node, crio_node, real_kubelet
from tests.integration.cri_node import GIVEN_OCI, OCI
from tests.integration.sleeper_image import PREBUILT, compiled
from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_files import PROJECT
from tests.lab.harness.guest_tests import assert_all_passed, run_tests
from tests.lab.harness.image import PYTHON_PACKAGES
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind

RUNTIMES = {"containerd": containerd_node, "crio": crio_node}
"""By the name that the tests of a kubelet's node have for each."""
GIVEN = f"{PROJECT}/.cache/given"
"""Where a guest has the programs, all in one directory."""
GRPC = ("grpc", "google.protobuf")
PACE = {"PINPROOF_TEST_PACE": "4"}
"""Starting a container takes an emulated machine seconds; windows are 16 s."""
SYSTEMD = {"PINPROOF_TEST_CGROUP_DRIVER": "systemd"}
LEFT = "/tmp/kubelet-tests"
MINUTES = 25


@pytest.fixture(scope="module")
def kubelet_node(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """The guest with all that a node needs but for the runtime."""
    kubelet = real_kubelet.binary()
    if guest.sh("python3 -c 'import sys; print(sys.version_info[:2])'") != str(sys.version_info[:2]):
        pytest.skip("this interpreter is not of the guest's version: its grpcio does not fit there")
    folders = [_package(name) for name in GRPC]
    guest.put_project("tests")
    guest.put({"kubelet": kubelet.read_bytes()}, GIVEN)
    program = compiled(tmp_path_factory.mktemp("sleeper")).read_bytes()
    guest.put({str(PREBUILT.relative_to(programs.PROJECT)): program}, PROJECT)
    for top, folder in folders:
        guest.put(dict(_files(top, folder)), PYTHON_PACKAGES)
    # A kubelet makes no pod where it cannot read this file; guests have no network.
    guest.put({"etc/resolv.conf": b""})
    return guest


def _package(name: str) -> tuple[Path, Path]:
    """Return the folder that a package is installed in, and its own."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{name} is not installed (pip install 'pinproof[kubelet]')")
    folder = Path(next(iter(spec.submodule_search_locations)))
    return folder.parents[name.count(".")], folder


def _files(top: Path, folder: Path) -> Iterable[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(top)), path.read_bytes()


@pytest.mark.parametrize("runtime", RUNTIMES)
@guests(GuestKind(), GuestKind(flavour="systemd"))
def test_a_real_kubelet_on_v2_with_two_nodes(kubelet_node: Guest, runtime: str, tmp_path: Path) -> None:
    """Claims are what it promises, no healthy window alarms, a drift is named: nothing is skipped."""
    given = _put_runtime(kubelet_node, runtime)
    test = "tests/integration/test_real_kubelet.py"
    driver = SYSTEMD if kubelet_node.read("/proc/1/comm").strip() == "systemd" else {}
    words = (test, "-k", f"[{runtime}]", f"--basetemp={LEFT}")
    ran = run_tests(kubelet_node, *words, timeout_s=60 * MINUTES, env={**PACE, **driver, **given})
    if any(case.outcome != "passed" for case in ran):
        _keep(kubelet_node, tmp_path)
    assert len(ran) == 2
    assert_all_passed(ran)


def _put_runtime(guest: Guest, runtime: str) -> dict[str, str]:
    """Put a runtime into the guest, with the libraries that it has not; return the environment that names all."""
    node = RUNTIMES[runtime]
    for name in node.OWN:
        path = node.program(name)
        if path is None:
            pytest.skip(f"{name} is not installed ({node.GIVEN}=DIR names a directory with {', '.join(node.OWN)})")
        _put_program(guest, name, path)
    oci = Path(OCI)
    if oci.is_absolute():
        if not oci.exists():
            pytest.skip(f"{GIVEN_OCI} names {oci}, which does not exist")
        _put_program(guest, oci.name, oci)
        oci = Path(GIVEN, oci.name)
    # crun's `update` opens it. udev makes the link; a guest without systemd has no udev.
    guest.sh("test -e /dev/stdin || ln -s /proc/self/fd/0 /dev/stdin")
    return {"PINPROOF_KUBELET": f"{GIVEN}/kubelet", node.GIVEN: GIVEN, GIVEN_OCI: str(oci)}


def _put_program(guest: Guest, name: str, path: Path) -> None:
    # One by one: a guest has little memory, and holds what it is given twice for a moment.
    guest.put({name: path.read_bytes()}, GIVEN)
    missing = [one for one in _libraries(path) if guest.run(["test", "-e", str(one)]).code]
    guest.put({str(one).lstrip("/"): one.read_bytes() for one in missing})


def _libraries(program: Path) -> list[Path]:
    """Return the shared libraries that a program is loaded with; none for one that is linked statically."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in re.findall(r" => (/\S+)", said)]


def _keep(guest: Guest, folder: Path) -> None:
    """Copy what the watch and the kubelet have written to the host."""
    for path in guest.sh(f"ls -d {LEFT}/*/w {LEFT}/*/kubelet/log {LEFT}/*/n/log || true").split():
        target = folder / path.removeprefix(f"{LEFT}/").replace("/", "-")
        target.mkdir()
        guest.get(path, target)
