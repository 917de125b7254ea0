"""The library: every fault is described, every word of scenarios leads to one, and each says when it acts."""

from __future__ import annotations

import pytest

from toolkit.errors import InputError
from toolkit.faults.fault import Fault, Scope, When, Word
from toolkit.faults.registry import FAULTS, INJECTABLE, WORDS, fault_by_id, fault_named, word_of
from toolkit.model.scenario import NegativeControl
from toolkit.scenario_file import load_catalogue
from toolkit.session.planning.admissions import ADMISSION
from validators.registry import RULES

KNOWN = {rule.id for rule in RULES} | {ADMISSION}
CONTROLS = [control for scenario in load_catalogue() for control in scenario.negative_controls]
CONTRACT = {
    "cpuset-write": ("widen-cpuset", "far-cpuset", "narrow-cpuset"),
    "cpuset-emptied": (),
    "pool-emptied": (),
    "quota-reset": (),
    "quota-imposed": ("set-quota",),
    "weight-reset": ("set-shares",),
    "task-moved": (),
    "rogue-task": (),
    "checkpoint-torn": ("torn-state",),
    "cpu-offline": (),
    "irq-moved": (),
}
"""What users may say to ``pinproof inject``, and what scenarios call the same deed."""
ONLY_IN_SCENARIOS = {
    "widen-mems",
    "unlimit-hugepages",
    "pile-up",
    "resize-ignored",
    "reconcile-missed",
    "tight-limit",
    "change-node",
    "misconfigure-node",
    "canary-escape",
}


def test_the_words_of_users_stay() -> None:
    """Ids of ``inject`` and words of scenario files are a contract; the same deed has one module."""
    found = {fault.id: tuple(word.word for word in fault.words) for fault in INJECTABLE}

    assert found.items() >= CONTRACT.items()
    assert set(WORDS) >= {word for words in CONTRACT.values() for word in words} | ONLY_IN_SCENARIOS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_described(fault: Fault) -> None:
    """A title, what it changes, failures that exist, rules that exist; what is planted can be prepared."""
    assert fault.title
    assert fault.changes
    assert all(name[0] == "F" and 1 <= int(name[1:]) <= 67 for name in fault.field)
    assert {*fault.rules, *fault.undecides, *(fault.consequences or ())} <= KNOWN
    assert (fault.prepare is None) == (fault.scope is Scope.RUN)
    if fault.injectable:
        assert fault.prepare is not None
        assert fault.rules or fault.undecides


def test_names_are_unique() -> None:
    """No two faults have one id, no two words are the same."""
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)
    assert len(WORDS) == sum(len(fault.words) for fault in FAULTS)


@pytest.mark.parametrize("word", WORDS.values(), ids=lambda word: word.word)
def test_a_word_says_what_its_stage_needs(word: Word) -> None:
    """What is planted in the sandbox has an aim, and nothing else has."""
    assert (word.aim is not None) == (word.when is When.SANDBOX)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if not fault.injectable], ids=lambda fault: fault.id)
def test_the_catalogue_shows_the_rules_of_a_fault(fault: Fault) -> None:
    """What only scenarios plant is shown to be reported there: by the rules that it names, and by no other."""
    words = {word.word for word in fault.words}

    assert {control.rule for control in CONTROLS if control.fault in words} == set(fault.rules)


def test_unknown_names_are_refused() -> None:
    """One line that lists what there is; what only scenarios may do cannot be injected."""
    with pytest.raises(InputError, match="cpuset-write"):
        fault_named("nonsense")
    with pytest.raises(InputError, match="no such fault"):
        fault_named("tight-limit")
    with pytest.raises(InputError, match="no such fault"):
        fault_by_id("nonsense")
    with pytest.raises(InputError, match="widen-cpuset"):
        word_of(NegativeControl(rule="applied", fault="nonsense"))
