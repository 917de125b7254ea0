"""Bundles, for verbs that take a saved run: whose they are, and the run or session that is in them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit import presence
from toolkit.bundle import Bundle, read_bundle, verified
from toolkit.cli.common import called, say_line
from toolkit.errors import InputError
from toolkit.packed import is_packed, lay_out
from toolkit.text import names


@contextmanager
def handed_on(path: Path, allowed: Path | None = None, identity: str | None = None) -> Iterator[Path]:
    """Yield where a run or session is: ``path`` itself, or, of a bundle, where it was unpacked until the block ends.

    Who signed a bundle, or that nobody asked, is reported on standard error.

    :raises InputError: it is broken or was tampered with, or, where signers are given, it is not signed by one of them.
    """
    bundle = read_bundle(path) if is_packed(path) and presence.is_file(path) else None
    if bundle is None:
        if allowed is not None or identity is not None:
            raise InputError(names.from_path(path), "no bundle", "a bundle: nothing else can be verified")
        yield path
        return
    _say_signer(bundle, allowed, identity)
    with laid_out(bundle) as folder:
        yield folder


@contextmanager
def laid_out(bundle: Bundle) -> Iterator[Path]:
    """Yield the directory of the run or session of a bundle, until the block ends; what is said names the bundle.

    :raises InputError: what is wrong in it, by the bundle's name.
    """
    with tempfile.TemporaryDirectory(prefix="pinproof-") as place:
        folder = Path(place) / "run"
        lay_out(folder, bundle.files)
        try:
            with called(folder, bundle.path):
                yield folder
        except InputError as error:
            told = str(error).replace(f"{folder}/", "").replace(f"{folder}: ", "")
            raise InputError(names.from_path(bundle.path), told) from None


def _say_signer(bundle: Bundle, allowed: Path | None, identity: str | None) -> None:
    where = f"pinproof: {names.from_path(bundle.path)}"
    if allowed is not None:
        signer = verified(bundle, allowed, identity)
        say_line(f"{where}: signed by {signer}", err=True)
    elif identity is not None:
        raise InputError("--identity", "no --allowed-signers", "the file that says which keys are of whom")
    else:
        signed = "it is signed" if bundle.signature is not None else "it is not signed"
        say_line(f"{where}: not verified: no --allowed-signers ({signed})", err=True)
    if bundle.manifest.redacted:
        say_line(f"{where}: names of the machine, of pods and of cgroups are redacted", err=True)
