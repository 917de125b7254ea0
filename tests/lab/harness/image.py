"""The guest's root image: Debian packages, the Python packages that the project asks for, and the kernels beside it.

The image is keyed by everything that goes into it and is read-only for the guest; the project itself is not in it
(it goes in at run time), so an image outlives code changes. Needs root for ``chroot``, no network of the guest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.lab.harness import debian, settings
from tests.lab.harness.architecture import Architecture
from tests.lab.harness.flavours import PLAIN, Flavour
from tests.lab.harness.settings import LabUnavailableError, tool

PYTHON_PACKAGES = "/opt/python"
"""Where the project's dependencies live in the guest."""

_EMPTY = ("proc", "sys", "dev", "run", "tmp", "root", "var/tmp", "var/lib", "opt", "etc")
_BULK = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "hosts": "127.0.0.1 localhost lab\n",
    "hostname": "lab\n",
    "machine-id": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a guest starts from."""

    root: Path
    kernels: Path
    busybox: Path


def current(flavour: Flavour = PLAIN) -> Image:
    """Return the image that fits the present recipe.

    :raises LabUnavailableError: it has not been built.
    """
    folder = _folder(flavour)
    if not (folder / "complete").exists():
        raise LabUnavailableError(
            f"no {flavour.name} guest image for the present recipe in {settings.cache()}: run make lab-image"
        )
    return Image(root=folder / "root.ext4", kernels=folder / "kernels", busybox=folder / "busybox")


def _folder(flavour: Flavour) -> Path:
    return settings.cache() / f"image-{flavour.name}-{recipe_key(flavour)}"


def build(say: Callable[[str], None] = lambda line: None, flavour: Flavour = PLAIN) -> Image:
    """Build the image unless it exists already; leftovers of older recipes are removed.

    :raises LabUnavailableError: not root, or a package cannot be had.
    """
    try:
        return current(flavour)
    except LabUnavailableError:
        if os.geteuid() != 0:
            raise LabUnavailableError("building the guest image needs root (chroot into the unpacked tree)") from None
    store = settings.cache()
    say("resolving and downloading Debian packages")
    packages = _download(store, flavour)
    with tempfile.TemporaryDirectory(prefix="building-", dir=store) as temporary:
        work = Path(temporary)
        kernels = [package for package in packages if debian.is_kernel(package)]
        others = _other_kernels(store, flavour, say)
        say(f"unpacking {len(kernels) + len(others)} kernel packages")
        debian.unpack_kernels([*kernels, *others], work / "kernels")
        say(f"unpacking {len(packages) - len(kernels)} packages")
        stage = work / "stage"
        _stage(stage, [package for package in packages if package not in kernels], flavour)
        say("adding the project's Python dependencies")
        _python_packages(stage, flavour.architecture)
        say("writing the ext4 image")
        target = work / "result"
        target.mkdir()
        options = ["-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-m", "0"]
        _nice([tool("mke2fs"), *options, "-d", stage, target / "root.ext4", f"{flavour.mib}M"])
        (work / "kernels").rename(target / "kernels")
        shutil.copy2(stage / "usr/bin/busybox", target / "busybox")
        (target / "complete").write_text("\n".join(package.name for package in packages) + "\n")
        for old in [*store.glob(f"image-{flavour.name}-*"), *store.glob("image-" + "[0-9a-f]" * 16)]:
            shutil.rmtree(old)
        target.rename(_folder(flavour))
    return current(flavour)


def _download(store: Path, flavour: Flavour) -> list[Path]:
    architecture = flavour.architecture
    place = store / architecture.folder("packages")
    return debian.download(place, _packages(flavour), architecture.releases, architecture.name)


def _kernels(flavour: Flavour) -> tuple[str, ...]:
    return flavour.kernels or tuple(flavour.architecture.kernels)


def _packages(flavour: Flavour) -> list[str]:
    kernels = [flavour.architecture.kernels[name] for name in _kernels(flavour) if name not in debian.RELEASES]
    return [*kernels, *debian.GUEST_PACKAGES, *flavour.packages]


def _other_kernels(store: Path, flavour: Flavour, say: Callable[[str], None]) -> list[Path]:
    """Fetch the kernels of other releases. One that is not to be had is left out, and its guests do not start: an old
    release leaves the archive one day, and all other guests are as good without it.
    """
    found: list[Path] = []
    for name in _kernels(flavour):
        release = debian.RELEASES.get(name)
        if release is None:
            continue
        try:
            packages = debian.download(store / f"packages-{release}", [debian.KERNELS[name]], [release])
        except LabUnavailableError as error:
            say(f"no kernel {name}: {error}")
        else:
            found += [package for package in packages if debian.is_kernel(package)]
    return found


def recipe_key(flavour: Flavour = PLAIN) -> str:
    """Return the digest of everything that decides the image's content, apart from Debian's own updates."""
    recipe = {
        "packages": _packages(flavour),
        "flavour": repr(flavour),
        "python": _requirements(),
        "code": [Path(module).read_text() for module in (__file__, debian.__file__)],
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def _requirements() -> list[str]:
    project = tomllib.loads((settings.PROJECT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["test"]]


def _stage(stage: Path, packages: list[Path], flavour: Flavour) -> None:
    debian.make_root(stage)
    for name in _EMPTY:
        (stage / name).mkdir(parents=True, exist_ok=True)
    for package in packages:
        debian.unpack(package, stage)
    for name in _BULK:
        shutil.rmtree(stage / name, ignore_errors=True)
    for name, text in _ETC.items():
        (stage / "etc" / name).write_text(text)
    _own(stage, flavour)
    shell = stage / "usr/bin/sh"
    if not shell.exists():
        shell.symlink_to("dash")
    if flavour.architecture.is_host:  # elsewhere libraries are found without
        _nice(["chroot", stage, "/sbin/ldconfig"])


def _own(stage: Path, flavour: Flavour) -> None:
    """Write what a flavour adds: users, files, links."""
    for name, number in flavour.users.items():
        with (stage / "etc/passwd").open("a") as users:
            users.write(f"{name}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n")
    with (stage / "etc/group").open("a") as groups:
        for name, number in [*flavour.users.items(), *flavour.groups.items()]:
            groups.write(f"{name}:x:{number}:\n")
    for path, text in flavour.files.items():
        (stage / path).parent.mkdir(parents=True, exist_ok=True)
        (stage / path).write_text(text)
    for path, target in flavour.links.items():
        (stage / path).parent.mkdir(parents=True, exist_ok=True)
        if (stage / path).is_dir() and not (stage / path).is_symlink():
            shutil.rmtree(stage / path)  # of a package: what lies below /run is not there after a boot
        else:
            (stage / path).unlink(missing_ok=True)
        (stage / path).symlink_to(target)
    for path, user in flavour.folders.items():
        folder = stage / path
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for each in (folder, *folder.iterdir()):
            os.chown(each, flavour.users[user], flavour.users[user])
            if each.is_file():
                each.chmod(0o600)


def _python_packages(stage: Path, architecture: Architecture) -> None:
    interpreter = max((stage / "usr/bin").glob("python3.[0-9]*"), key=lambda path: len(path.name))
    version = interpreter.name.removeprefix("python")
    target = stage / PYTHON_PACKAGES.lstrip("/")
    options = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-compile"]
    platform = ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}"]
    platform += [f"--platform={one}" for one in architecture.wheels]
    _nice([sys.executable, "-m", "pip", "install", *options, *platform, "--target", target, *_requirements()])
    if not architecture.is_host:
        return
    compiling = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    folders = [f"/usr/lib/python{version}", "/usr/lib/python3/dist-packages", PYTHON_PACKAGES]
    _nice(["chroot", stage, f"/usr/bin/{interpreter.name}", *compiling, *folders], check=False)


def _nice(command: list[str | Path], *, check: bool = True) -> None:
    done = subprocess.run(["nice", "-n", str(settings.NICENESS), *command], capture_output=True, text=True, check=False)
    if check and done.returncode:
        tail = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise LabUnavailableError(f"{Path(command[0]).name} ended with {done.returncode}: {' / '.join(tail)}")
