"""``python -m tests.lab.harness``: what the Makefile's lab targets call."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.lab.harness import emulator, flavours, image, quick, settings, snapshot
from tests.lab.harness.flavours import Flavour
from tests.lab.harness.settings import LabUnavailableError
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import BY_NAME


def say(line: str) -> None:
    """Tell progress."""
    print(f"lab: {line}", file=sys.stderr, flush=True)


def setup() -> None:
    """Install the host programs that are missing."""
    install(sorted({package for name, package in settings.HOST_TOOLS.items() if settings.found(name) is None}))


def install(missing: Sequence[str]) -> None:
    """Install Debian's packages on the host."""
    if not missing:
        return
    if os.geteuid() != 0:
        raise LabUnavailableError(f"root is needed to install {' '.join(missing)}")
    say(f"installing {' '.join(missing)}")
    subprocess.run(["apt-get", "install", "--yes", "--no-install-recommends", *missing], check=True)


def build(flavour: Flavour) -> None:
    """Make what is missing of a flavour's guests: the compiler of its foreign programs, the emulator, the image."""
    architecture = flavour.architecture
    if settings.found(architecture.compiler) is None:
        install(architecture.compiler_packages)
    emulator.build(say, architecture)
    image.build(say, flavour)


def command(kind: GuestKind, argv: list[str]) -> int:
    """Run one command in a guest that has the current tree."""
    with snapshot.running(kind) as guest:
        guest.put_project("tests")
        done = guest.run(argv or ["uname", "-a"], timeout_s=3600)
        sys.stdout.buffer.write(done.out)
        sys.stderr.buffer.write(done.err)
        return done.code


def warm(kinds: list[GuestKind]) -> None:
    """Make the snapshots that are missing."""
    for kind in kinds:
        with settings.turn():
            recipe = snapshot.recipe(kind)
            if not recipe.snapshot.exists():
                began = time.monotonic()
                snapshot.make(kind, recipe)
                say(f"{kind}: snapshot after {time.monotonic() - began:.0f} s")


def main() -> int:
    """Parse the words and do the work; the exit code of ``run`` is the command's."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.harness", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("setup", help="install missing host programs from Debian's packages")
    parser_image = verbs.add_parser("image", help="fetch the emulator and build guest images, what is missing of them")
    parser_image.add_argument("--flavour", choices=flavours.BY_NAME, action="append", help="default: those of make lab")
    verbs.add_parser("quick", help="print the tests of make lab-quick, one a line")
    verbs.add_parser("guests", help="print how many guests run side by side on this machine")
    verbs.add_parser("clean", help="remove the lab's cache")
    for name, text in (("run", "run a command in a guest"), ("warm", "make the snapshot of a guest")):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--topology", choices=BY_NAME, default="small")
        verb.add_argument("--kernel", choices=flavours.KERNELS, default="6.1")
        verb.add_argument("--cgroup", choices=snapshot.CGROUP_WORDS, default="v2")
        verb.add_argument("--flavour", choices=flavours.BY_NAME, default=flavours.PLAIN.name)
        if name == "run":
            verb.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    words = parser.parse_args()
    try:
        if words.verb == "setup":
            setup()
        elif words.verb == "image":
            for flavour in [flavours.BY_NAME[name] for name in words.flavour or ()] or flavours.USUAL:
                build(flavour)
        elif words.verb == "quick":
            print("\n".join(quick.tests()))
        elif words.verb == "guests":
            print(settings.guests_at_once())
        elif words.verb == "clean":
            shutil.rmtree(settings.cache(), ignore_errors=True)
        else:
            kind = GuestKind(
                topology=BY_NAME[words.topology], kernel=words.kernel, cgroup=words.cgroup, flavour=words.flavour
            )
            if words.verb == "warm":
                warm([kind])
            else:
                return command(kind, words.argv)
    except LabUnavailableError as error:
        say(str(error))
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
