"""A bundle: one run or session as a file that is handed on, with what it states in words and a signature over it.

``<name>.tar.gz`` holds ``manifest.json`` (``pinproof.bundle/1``: name of each file -> SHA-256), ``statement.md``, the
files of the run or session below ``run/``, and, where it is signed, ``manifest.json.sig``. The same evidence gives the
same bytes. The signature is OpenSSH's, of the namespace ``pinproof``: who may sign is a file of allowed signers, as for
git; keys may be those of an agent or of a security token. A bundle comes from elsewhere and is read as a stranger's.
Source: ssh-keygen(1), "-Y sign", "-Y verify", "ALLOWED SIGNERS"; OpenSSH's PROTOCOL.sshsig.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolkit.errors import HostUnsupportedError, InputError
from toolkit.model.serde import from_json, stage_value, to_data
from toolkit.packed import MAX_DEPTH, archive, read_packed
from toolkit.regular_file import read_regular
from toolkit.text.names import printable

MANIFEST, SIGNATURE, STATEMENT, CONTENT = "manifest.json", "manifest.json.sig", "statement.md", "run/"
NAMESPACE = "pinproof"
"""A signature that was made for something else, such as a commit, is none of a bundle."""
EXPECTED = "a bundle (made by pinproof bundle)"
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
MAX_SIGNATURE_BYTES = 64 * 1024
DEADLINE_S = 120.0
"""A key may want a passphrase, or a finger on a token."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a bundle holds.

    :param name: of the run or session. :param pinproof: the version that put it together.
    :param redacted: names of machine, pods and cgroups are tokens. :param files: all others -> SHA-256, in hexadecimal.
    """

    schema: Literal["pinproof.bundle/1"] = "pinproof.bundle/1"
    name: str
    kind: Literal["run", "session"]
    pinproof: str
    redacted: bool = False
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle whose files are those of its manifest. :param signed: the manifest's bytes, which a signature is of."""

    path: Path
    manifest: Manifest
    signed: bytes
    signature: bytes | None
    statement: str
    files: Mapping[str, bytes]
    """Of the run or session, as below its directory."""


def made(
    files: Mapping[str, bytes],
    *,
    name: str,
    kind: Literal["run", "session"],
    statement: str,
    pinproof: str,
    redacted: bool = False,
    key: Path | None = None,
) -> bytes:
    """Return a bundle; equal evidence gives equal bytes, but for the signature of some kinds of keys.

    :param files: of the run or session, as below its directory.
    :param key: what signs it, as ``ssh-keygen -f`` takes it.
    :raises InputError: it cannot be signed. :raises HostUnsupportedError: there is no ssh-keygen.
    """
    inside = {**{CONTENT + name: content for name, content in files.items()}, STATEMENT: statement.encode()}
    manifest = Manifest(name=name, kind=kind, pinproof=pinproof, redacted=redacted, files=_digests(inside))
    text = (json.dumps(to_data(manifest), indent=1, sort_keys=True) + "\n").encode()
    inside[MANIFEST] = text
    if key is not None:
        inside[SIGNATURE] = _sign(text, key)
    return archive(inside)


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}


def read_bundle(path: Path) -> Bundle | None:
    """Read an archive and hold its files against its manifest; ``None``: it is no bundle, but perhaps a packed run.

    :raises InputError: one line: no archive, links, names that lead elsewhere, too much; a file that is missing,
        changed or not in the manifest.
    """
    files = read_packed(path, EXPECTED, MAX_DEPTH + 1)
    if MANIFEST not in files:
        return None
    text = files.pop(MANIFEST)
    signature = files.pop(SIGNATURE, None)
    where = f"{path}/{MANIFEST}"
    if len(text) > MAX_MANIFEST_BYTES or (signature is not None and len(signature) > MAX_SIGNATURE_BYTES):
        raise InputError(where, "too long", EXPECTED)
    manifest = from_json(Manifest, text, where)
    for name, digest in _digests(files).items():
        if name not in manifest.files:
            raise InputError(str(path), f"{printable(name)}, which its manifest does not name", EXPECTED)
        if digest != manifest.files[name]:
            raise InputError(str(path), f"{printable(name)} is not the file of its manifest (SHA-256)", EXPECTED)
    missing = sorted(set(manifest.files) - set(files))
    if missing:
        raise InputError(str(path), f"{printable(missing[0])} is missing", EXPECTED)
    return Bundle(
        path=path,
        manifest=manifest,
        signed=text,
        signature=signature,
        statement=files.pop(STATEMENT, b"").decode("utf-8", "replace"),
        files={name.removeprefix(CONTENT): content for name, content in files.items() if name.startswith(CONTENT)},
    )


def verified(bundle: Bundle, allowed: Path, identity: str | None = None) -> str:
    """Return who signed a bundle.

    :param allowed: the file of allowed signers. :param identity: who must have signed it.

    :raises InputError: there is no signature, or none of an allowed signer (of this identity).
    :raises HostUnsupportedError: there is no ssh-keygen.
    """
    where, expected = str(bundle.path), f"a bundle that a signer of {allowed} signed"
    if bundle.signature is None:
        raise InputError(where, "it is not signed", expected)
    try:
        read_regular(allowed, MAX_MANIFEST_BYTES)
    except OSError as error:
        raise InputError(str(allowed), error.strerror or str(error), "a file of allowed signers") from None
    with tempfile.TemporaryDirectory(prefix="pinproof-") as place:
        signature = Path(place) / SIGNATURE
        signature.write_bytes(bundle.signature)
        common = ["-f", str(allowed), "-s", str(signature)]
        if identity is None:
            code, out, _ = _ssh_keygen(["-Y", "find-principals", *common], b"")
            found = out.decode("utf-8", "replace").splitlines()
            if code or not found:
                raise InputError(where, "its signature is of nobody among the allowed signers", expected)
            identity = found[0]
        code, _, err = _ssh_keygen(["-Y", "verify", *common, "-I", identity, "-n", NAMESPACE], bundle.signed)
    if code:
        said = printable(" ".join(err.decode("utf-8", "replace").split())[:200])
        raise InputError(
            where, f"its signature is not one of {printable(identity)}: {said or f'exit code {code}'}", expected
        )
    return identity


def _sign(text: bytes, key: Path) -> bytes:
    if not os.path.lexists(key):
        raise InputError(f"--sign {key}", "No such file or directory", "a key of ssh-keygen")
    code, out, err = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE], text)
    if code or not out.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        said = printable(" ".join(err.decode("utf-8", "replace").split())[-200:])
        raise InputError(f"--sign {key}", said or f"exit code {code}", "a key that ssh-keygen can sign with")
    return out


def _ssh_keygen(arguments: Sequence[str], text: bytes) -> tuple[int, bytes, bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise HostUnsupportedError("signatures are made and verified by ssh-keygen: install openssh-client")
    try:
        done = subprocess.run([program, *arguments], input=text, capture_output=True, timeout=DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        raise InputError("ssh-keygen", f"no end within {DEADLINE_S:g} s", "an answer") from None
    return done.returncode, done.stdout, done.stderr
