"""Fixtures of the lab's tests; they live in the harness."""

from __future__ import annotations

from tests.lab.harness.equipped import equipped
from tests.lab.harness.plugin import (
    _guest_of_this_test,
    busybox,
    guest,
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_logreport,
    pytest_runtest_makereport,
    pytest_xdist_make_scheduler,
)

__all__ = [
    "_guest_of_this_test",
    "busybox",
    "equipped",
    "guest",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_logreport",
    "pytest_runtest_makereport",
    "pytest_xdist_make_scheduler",
]
