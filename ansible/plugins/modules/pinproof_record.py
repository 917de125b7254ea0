#!/usr/bin/python
"""Documentation of the action of this name, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pinproof_record
short_description: Write the controller's record of a host
version_added: 0.1.0
description:
  - Writes RESULTS/HOST/record.json (C(pinproof.record/1)) on the controller from what the controller has in hand, so a
    node that is full, hangs or is gone has one, too.
  - It never fails because of what it records; it returns the outcome, and its caller decides.
options:
  results:
    description: Folder of the results on the controller.
    type: path
    required: true
  playbook:
    description: Name of the play, such as V(check).
    type: str
    required: true
  job:
    description: Id of the play's job, the same for all its hosts.
    type: str
    required: true
  hosts:
    description: With O(state=begun), the hosts of the play. Default is the host that the task runs for.
    type: list
    elements: str
    default: []
  state:
    description: V(begun) writes V(not-reached) for each of O(hosts); V(ended) writes how one host came out.
    type: str
    choices: [begun, ended]
    default: ended
  started_at_s:
    description: When the host's turn came, seconds since 1970 by the controller.
    type: float
  look:
    description: What M(pinproof.node.pinproof) with O(pinproof.node.pinproof#module:job=look) registered.
    type: dict
    default: {}
  run:
    description: What the job registered; nothing if none was begun.
    type: dict
    default: {}
  evidence:
    description: What M(pinproof.node.pinproof_evidence) registered of that job.
    type: dict
    default: {}
  before_evidence:
    description: The same of the job before a rollout.
    type: dict
    default: {}
  stopped:
    description: Why no job was begun on this host, such as a hook that failed; empty if nothing stopped it.
    type: str
    default: ""
  worse:
    description: What a comparison of the two sessions found worse; empty for nothing.
    type: str
    default: ""
  compare_exit_code:
    description: Of the comparison of the two sessions; 0 where there was none.
    type: int
    default: 0
  notes:
    description: What else a reader should know, a sentence each.
    type: list
    elements: str
    default: []
  clock_s:
    description: A clock that differs by more seconds is noted.
    type: float
    default: 30
attributes:
  check_mode:
    support: full
    description: Writes nothing.
  diff_mode:
    support: none
    description: A record is an answer, not a setting.
  async:
    support: none
    description: It takes no time.
  platform:
    support: full
    platforms: posix
    description: Runs on the controller.
author:
  - The pinproof authors (@pinproof)
"""

EXAMPLES = r"""
- name: Write down how the job ended
  pinproof.node.pinproof_record:
    results: runs
    playbook: check
    job: check-20261128T231800Z
    look: "{{ looked }}"
    run: "{{ checked }}"
    evidence: "{{ brought }}"
"""

RETURN = r"""
record:
  description: The record, as it was written.
  type: dict
  returned: with O(state=ended)
"""
