"""The options of a watch: few, each of use on a node that runs, and a place to serve metrics at in one value."""

from __future__ import annotations

import click
import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from toolkit.cli.watch import HEADINGS, command, place_to_serve

MOST = 34
"""A watch had 34 options once. One more wants a reason that a user has: ``--kubelet-version`` is for nodes on which
nothing can be asked; ``--namespace`` and ``--pod`` for the pods that a user has on a node of hundreds; ``--live`` for a
person at a terminal; ``--bpf`` for gates that want no watch without it; ``--quiet-cpus`` for CPUs on
which a microsecond counts."""


def test_options_are_few() -> None:
    """A place of one part of a live node is not asked for: that is ``--root``; an option has one name."""
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert len(options) <= MOST
    assert [one.opts for one in options if sum(name.startswith("--") for name in one.opts) > 1] == []
    assert not {"--cgroup-root", "--proc", "--sys"} & {name for one in options for name in one.opts}


def test_options_stand_under_headings() -> None:
    """Each under one, and each heading in the help; what is left is how to get the help."""
    listed = [name for names in HEADINGS.values() for name in names]
    options = {name for one in command.params if isinstance(one, click.Option) for name in one.opts if name[:2] == "--"}
    shown = pinproof("watch", "--help").stdout

    assert sorted(listed) == sorted(options)
    assert [heading for heading in HEADINGS if f"\n{heading}:\n" not in shown] == []
    assert shown.partition("\nOptions:\n")[2].split() == ["-h,", "--help", "Show", "this", "message", "and", "exit."]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("9469", ("127.0.0.1", 9469)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9469", ("0.0.0.0", 9469)),
        ("node-1.example:65535", ("node-1.example", 65535)),
        ("[::]:9469", ("::", 9469)),
        ("[fe80::1%eth0]:9469", ("fe80::1%eth0", 9469)),
    ],
)
def test_a_place_to_serve_at(value: str, place: tuple[str, int]) -> None:
    """A port is of loopback, unless an address stands before it."""
    assert place_to_serve(value) == place


@pytest.mark.parametrize("value", ["", "x", "65536", "0.0.0.0", ":9469", "::1:9469", "[::1:9469", "a b:1", "-1"])
def test_a_place_that_is_none(value: str) -> None:
    """One line, exit code 2, before anything is observed."""
    ended = pinproof("watch", "--claims", "claims.yaml", f"--metrics-port={value}")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "is no port of 0 to 65535, and no ADDRESS:PORT" in ended.stderr


@pytest.mark.parametrize("option", ["--namespace", "--pod"])
def test_pods_are_chosen_of_a_kubelet_alone(option: str) -> None:
    """Claims of a file, or of a tool, are what was asked for: one line, exit code 2."""
    ended = pinproof("watch", "--claims", "claims.yaml", option, "shop")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"{option} is for --kubelet" in ended.stderr


@pytest.mark.parametrize(
    ("cpus", "said"), [("0-x", "--quiet-cpus"), ("all", "no CPU is left for pinproof"), ("8000", "CPUs of")]
)
def test_quiet_cpus_leave_one_for_the_watch(cpus: str, said: str) -> None:
    """A list of this machine's CPUs, but not of all: one line, exit code 2."""
    ended = pinproof("watch", "--claims", "claims.yaml", "--quiet-cpus", cpus)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert said in ended.stderr
