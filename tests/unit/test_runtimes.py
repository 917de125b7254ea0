"""The doors through which the tests of a kubelet's node take another container runtime, and a runtime its image."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests import programs
from tests.integration.image_registry import registry
from tests.integration.sleeper_image import Image

OWN = ("crio", "conmon")


def directory(folder: Path, *names: str) -> str:
    """A directory with programs."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_a_directory_that_was_given_has_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They alone are taken from there; without the variable nothing is."""
    monkeypatch.setenv("OF_A_TEST", directory(tmp_path, "crio", "conmon", "runc"))
    assert programs.given("crio", "OF_A_TEST", OWN) == tmp_path / "crio"
    assert programs.given("runc", "OF_A_TEST", OWN) is None
    monkeypatch.delenv("OF_A_TEST")
    assert programs.given("crio", "OF_A_TEST", OWN) is None


def test_a_directory_without_a_program_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a skip, and not the installed program instead: the test would be of another runtime than was asked for."""
    monkeypatch.setenv("OF_A_TEST", directory(tmp_path, "crio"))
    with pytest.raises(pytest.fail.Exception, match=f"OF_A_TEST={tmp_path}: no program conmon; expected a directory"):
        programs.given("conmon", "OF_A_TEST", OWN)


def test_an_image_is_pulled_from_the_registry() -> None:
    """Its manifest under any name, and what that names by digest, as clients of a registry ask for it."""
    image = Image(b'{"os": "linux"}', b"a layer")
    with registry(image) as address:

        def asked(path: str, method: str = "GET") -> tuple[str, int, bytes]:
            with urlopen(Request(f"http://{address}/v2/{path}", method=method), timeout=60) as answer:
                return answer.headers["Content-Type"], int(answer.headers["Content-Length"]), answer.read()

        kind, length, data = asked("sleeper/manifests/1")
        manifest = json.loads(data)
        assert (kind, length) == (manifest["mediaType"], len(data))
        assert asked("sleeper/manifests/1", "HEAD") == (kind, length, b"")
        for part, content in ((manifest["config"], image.config), (manifest["layers"][0], image.layer)):
            assert part["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert asked(f"sleeper/blobs/{part['digest']}")[2] == content
        with pytest.raises(HTTPError, match="404"):
            asked("sleeper/blobs/sha256:0")
