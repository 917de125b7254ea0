#!/usr/bin/python
"""The node's half of bringing evidence home: pack job folders in memory, or remove them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pinproof_evidence
short_description: Bring the folders of jobs from a node to the controller
version_added: 0.1.0
description:
  - Packs job folders in the node's memory (a full disk has room for no archive), unpacks them on the controller below
    O(dest), and removes them from the node unless O(keep=true).
  - What comes from a node is not trusted. Only plain files and folders are unpacked, with the controller's owner and
    modes, and none outside of the folder.
options:
  folder:
    description: The folder of one job, as M(pinproof.node.pinproof) returned it. Default is all that O(work_dir) holds.
    type: path
  work_dir:
    description: Folder on the node with the jobs' folders.
    type: path
    default: /var/tmp/pinproof
  dest:
    description: Folder on the controller.
    type: path
    required: true
  keep:
    description: Whether the folders stay on the node.
    type: bool
    default: false
  max_mib:
    description: Largest archive of one folder, and largest file in it, in MiB; a larger one stays on the node.
    type: int
    default: 256
  part:
    description: Which half the node does; set by the controller.
    type: str
    choices: [list, read, remove]
    default: list
attributes:
  check_mode:
    support: full
    description: Says which folders would be brought.
  diff_mode:
    support: none
    description: Evidence on the controller is new, not changed.
  async:
    support: none
    description: It takes as long as the transfer.
  platform:
    support: full
    platforms: linux
    description: Linux.
seealso:
  - module: pinproof.node.pinproof
author:
  - The pinproof authors (@pinproof)
"""

EXAMPLES = r"""
- name: Everything that earlier jobs left on the node
  pinproof.node.pinproof_evidence:
    dest: "runs/{{ inventory_hostname }}"
  become: true
"""

RETURN = r"""
folders:
  description: The folders on the controller that came.
  type: list
  elements: str
  returned: always
evidence:
  description: The session, or the run, in the one folder that came; none for several, or none.
  type: str
  returned: always
left:
  description: What stayed on the node, and why.
  type: list
  elements: str
  returned: always
"""

import base64
import io
import os
import shutil
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pinproof.node.plugins.module_utils import endings

MIB = 1024 * 1024


def main() -> None:
    """Do one half of the work."""
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path"},
            "work_dir": {"type": "path", "default": "/var/tmp/pinproof"},
            "dest": {"type": "path", "required": True},
            "keep": {"type": "bool", "default": False},
            "max_mib": {"type": "int", "default": 256},
            "part": {"type": "str", "choices": ["list", "read", "remove"], "default": "list"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    folders = [wanted["folder"]] if wanted["folder"] else _left(wanted["work_dir"])
    if not all(endings.JOB_FOLDER.fullmatch(os.path.basename(folder)) for folder in folders):
        module.fail_json(msg=f"{folders[0]} is no folder of a job")
    if wanted["part"] == "list" or module.check_mode:
        module.exit_json(changed=False, folders=folders, left=[])
    if wanted["part"] == "remove":
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        module.exit_json(changed=False, folders=[], left=[folder for folder in folders if os.path.exists(folder)])
    archives = {}
    left = []
    for folder in folders:
        packed = _packed(folder, wanted["max_mib"] * MIB)
        if packed is None:
            left.append(f"{folder}: larger than {wanted['max_mib']} MiB packed")
        else:
            archives[folder] = base64.b64encode(packed).decode("ascii")
    module.exit_json(changed=False, folders=folders, left=left, archives=archives)


def _left(work_dir: str) -> list:
    try:
        names = sorted(os.listdir(work_dir))
    except OSError:
        return []
    return [os.path.join(work_dir, name) for name in names if endings.JOB_FOLDER.fullmatch(name)]


def _packed(folder: str, most: int):
    """The folder's plain files as a compressed archive; nothing if it is too large."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=3) as archive:
        for place, _folders, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(place, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                if os.path.getsize(path) > most:
                    return None
                archive.add(path, os.path.relpath(path, folder), recursive=False)
                if buffer.tell() > most:
                    return None
    return buffer.getvalue() if buffer.tell() <= most else None


if __name__ == "__main__":
    main()
