"""The helper process that compiles: what becomes of it when the library fails, dies, or is not the library.

The library's deaths are played by a package of its name on the path: the real one dies only in releases that are not
installed here. Everything else (the process, its socket, its end) is real.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from probes import builder, loader
from probes.builder import Request
from probes.program import Program
from toolkit.errors import HostUnsupportedError

REQUEST = Request(sources=("switches/ledger.bpf.c",), settings={"MAX_CLAIMS": 1}, programs=(Program(name="on_switch"),))
PROJECT = Path(__file__).resolve().parents[3]
FAKE = """
import os, signal, sys
__version__ = "9.9"
class PerfType: pass
class lib:
    def bpf_function_start(module, name):
        LOAD
    def bpf_function_size(module, name):
        return 0
class BPF:
    module = None
    def __init__(self, text, cflags):
        COMPILE
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a package ``bcc`` that is found before the real one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "bcc.py"


def play(fake: Path, *, on_compile: str = "pass", on_load: str = "return 0") -> None:
    fake.write_text(FAKE.replace("COMPILE", on_compile).replace("LOAD", on_load))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"on_compile": "os.abort()"}, r"was killed by SIGABRT while compiling the probes with bcc 9\.9$"),
        ({"on_load": "os.abort()"}, r"was killed by SIGABRT while loading the program on_switch$"),
        (
            {"on_load": "print('terminate called', file=sys.stderr, flush=True); os.abort()"},
            "SIGABRT while loading the program on_switch: terminate called$",
        ),
        ({"on_compile": "os.kill(os.getpid(), signal.SIGSEGV)"}, "killed by SIGSEGV while compiling"),
        ({"on_compile": "os._exit(7)"}, "ended with exit code 7 while compiling"),
        ({"on_load": "raise KeyError('odd')"}, "ended with exit code 1 while loading the program on_switch: KeyError"),
        ({"on_compile": "raise Exception('will not')"}, r"the probes do not compile with bcc 9\.9: will not"),
        ({}, r"the compiler made no program on_switch \(compiled by bcc 9\.9 for Linux "),
    ],
)
def test_what_happened_is_said_in_one_line(fake: Path, parts: dict[str, str], said: str) -> None:
    """The step in which the helper died, how, and its last words; exit code 4."""
    play(fake, **parts)

    with pytest.raises(HostUnsupportedError, match=said) as caught:
        loader.compile_and_load(REQUEST)

    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)


def test_a_helper_that_cannot_be_started_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of processes, no memory, no interpreter: the host's word, exit code 4, and nothing about an output."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    with pytest.raises(
        HostUnsupportedError, match=r"^the probes' compiler cannot be started: No such file or directory$"
    ):
        loader.compile_and_load(REQUEST)


def test_the_other_bcc_is_told_apart(fake: Path) -> None:
    """A package that merely has the name is refused with the right package's name, as it is in the observer's path."""
    fake.write_text("")

    with pytest.raises(HostUnsupportedError, match=r"bcc\.py is another project's bcc, .*python3-bpfcc"):
        loader.compile_and_load(REQUEST)


def test_the_helper_does_not_see_our_environment_nor_our_folder(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that change what a compiler does stay outside, and so does a module that lies where we are."""
    play(fake, on_compile="raise Exception(f'{sorted(os.environ)} {os.getcwd()}')")
    monkeypatch.setenv("CPATH", "/nowhere")
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(folder)

    with pytest.raises(
        HostUnsupportedError, match=r"with bcc 9\.9: \['BCC_KERNEL_SOURCE'(, 'LC_CTYPE')?(, '[A-Z_]*PATH')*\] /$"
    ):
        loader.compile_and_load(REQUEST)


def test_an_error_of_ours_ends_the_helper(fake: Path) -> None:
    """What is raised while it starts goes through, and nothing stays behind."""
    play(fake, on_compile="import time; time.sleep(600)")

    not_json = replace(REQUEST, settings={"ODD": cast(int, object())})

    with pytest.raises(TypeError, match="not JSON serializable"):
        loader.compile_and_load(not_json)

    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("gone", [False, True], ids=["while it works", "before it began"])
def test_the_helper_ends_with_whom_it_works_for(tmp_path: Path, gone: bool) -> None:
    """SIGKILL of the process that wants the answer ends the helper at once, also one that has only just started."""
    script = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        "import os, time\nfrom probes import builder\n"
        "parent = os.getpid()\n"
        "if os.fork() == 0:\n"
        f"    if {gone}:\n"
        "        while os.getppid() == parent: time.sleep(0.001)\n"
        "    builder.die_with(parent)\n"
        "    print('helper', flush=True)\n"
        "    time.sleep(600)\n"
        "    os._exit(0)\n"
        f"if {gone}: os._exit(0)\n"
        "time.sleep(600)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    if not gone:
        assert child.stdout.readline() == "helper\n"
        child.kill()
    # The pipe ends when the last process that holds it has ended.
    assert child.stdout.read() == ""
    child.wait(120)


def test_requests_are_read_back_as_they_were() -> None:
    """What the helper gets is what was asked for."""
    assert Request.decode(REQUEST.encode()) == REQUEST
    assert len(REQUEST.encode()) < builder.MAX_MESSAGE
