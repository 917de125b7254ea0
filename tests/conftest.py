"""Fixtures for all tests, and what this machine can do."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.seeds import SEED, examples

# Time is measured in benchmarks; on a busy machine a deadline per example would only fail by chance.
settings.register_profile("pinproof", deadline=None, max_examples=examples(60))
# What CI says of a commit must not depend on the day: there the same examples are tried each time. New ones are looked
# for wherever people work; what they find becomes a test of its own.
settings.register_profile("pinproof-ci", deadline=None, max_examples=examples(60), derandomize=True)
settings.load_profile("pinproof-ci" if os.environ.get("CI") else "pinproof")

# What is collected stays until the end: to look for garbage among thousands of tests, again and again, takes a
# fifteenth of the unit tests' time. What a test leaves is looked for as ever.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not in what was collected."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _hangup_is_not_ignored() -> Iterator[None]:
    """Programs under test begin as from a terminal: under nohup a hangup is ignored, and inherited like that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed at the end (``-q`` has no header)."""
    terminalreporter.write_line(f"seed: {SEED} (PINPROOF_SEED={SEED} repeats it)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip integration tests, with the reason, where they cannot run."""
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("integration"):
            item.add_marker(pytest.mark.skip(reason="integration tests need root"))
