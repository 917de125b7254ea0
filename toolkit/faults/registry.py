"""All faults, by id and by the words that scenarios have for them."""

from __future__ import annotations

from toolkit.errors import InputError
from toolkit.faults import (
    canary_escape,
    checkpoint_torn,
    cpu_idle,
    cpu_offline,
    cpuset_emptied,
    cpuset_write,
    hugepages_unlimited,
    irq_moved,
    memory_raised,
    mems_write,
    node_changed,
    node_misconfigured,
    period_changed,
    pile_up,
    pool_emptied,
    quota_imposed,
    quota_reset,
    reconcile_missed,
    resize_ignored,
    rogue_task,
    task_moved,
    tight_limit,
    weight_reset,
)
from toolkit.faults.fault import Fault, Word
from toolkit.model.scenario import NegativeControl

FAULTS: tuple[Fault, ...] = (
    cpuset_write.FAULT,
    cpuset_emptied.FAULT,
    pool_emptied.FAULT,
    mems_write.FAULT,
    quota_reset.FAULT,
    quota_imposed.FAULT,
    period_changed.FAULT,
    weight_reset.FAULT,
    cpu_idle.FAULT,
    memory_raised.FAULT,
    hugepages_unlimited.FAULT,
    task_moved.FAULT,
    rogue_task.FAULT,
    pile_up.FAULT,
    checkpoint_torn.FAULT,
    cpu_offline.FAULT,
    irq_moved.FAULT,
    resize_ignored.FAULT,
    reconcile_missed.FAULT,
    tight_limit.FAULT,
    node_changed.FAULT,
    node_misconfigured.FAULT,
    canary_escape.FAULT,
)

INJECTABLE: tuple[Fault, ...] = tuple(fault for fault in FAULTS if fault.injectable)
"""What ``pinproof inject`` offers."""

WORDS: dict[str, Word] = {word.word: word for fault in FAULTS for word in fault.words}
"""What scenarios may say after ``fault:``."""


def id_of(word: str) -> str:
    """Return the one name of the fault that a scenario's word stands for; another word is returned as it is."""
    return next((fault.id for fault in FAULTS if any(one.word == word for one in fault.words)), word)


def fault_named(name: str) -> Fault:
    """Return one fault that can be injected, by its name or by a scenario's word for it.

    :raises InputError: there is no such fault; the message lists them.
    """
    for fault in INJECTABLE:
        if fault.id == id_of(name):
            return fault
    known = ", ".join(fault.id for fault in INJECTABLE)
    raise InputError(f"fault {name[:60]!r}", "no such fault", f"one of {known}")


def fault_by_id(name: str) -> Fault:
    """Return any fault.

    :raises InputError: there is no such fault.
    """
    for fault in FAULTS:
        if fault.id == name:
            return fault
    return fault_named(name)


def word_of(control: NegativeControl) -> Word:
    """Return what a negative control's word means.

    :raises InputError: it is no word of this version.
    """
    if control.fault not in WORDS:
        raise InputError(
            f"negative control {control.rule}", f"fault {control.fault[:60]!r}", f"one of {', '.join(WORDS)}"
        )
    return WORDS[control.fault]
