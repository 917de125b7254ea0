"""The hosts of a play; an error where there are none."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes
short_description: The nodes that a play is to look at, or an error
version_added: 0.1.0
description:
  - A play over a group that does not exist, over an inventory file that does not exist, or with a C(--limit) that
    leaves nothing over is skipped by Ansible with exit code 0. As C(hosts) of a play this look-up is an error there.
options:
  _terms:
    description: Name of a variable whose value is wanted instead of the hosts (for keywords of a play, which see no
      variables of groups), and what it is where it is not set. Ansible has variables of groups from the second play on.
  group:
    description: The group. Default is the variable C(pinproof_group), or C(pinproof_nodes).
    type: str
author:
  - The pinproof authors (@pinproof)
"""

EXAMPLES = r"""
- name: Look at the nodes
  hosts: "{{ lookup('pinproof.node.nodes') }}"
  serial: "{{ lookup('pinproof.node.nodes', 'pinproof_serial', '100%') }}"
  tasks:
    - name: Look
      pinproof.node.pinproof:
        job: look
"""

RETURN = r"""
_raw:
  description: The name of the group, once it is known to have hosts; or the variable's value.
  type: list
  elements: raw
"""

from typing import Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """See above."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[Any]:
        """Return one value."""
        variables = variables or {}
        group = kwargs.get("group") or variables.get("pinproof_group") or "pinproof_nodes"
        if terms:
            name, default = terms[0], (terms[1] if len(terms) > 1 else None)
            members = [] if group not in variables.get("groups", {}) else variables["groups"][group]
            return [self._variable(name, default, variables, members)]
        return [self._checked(group, variables)]

    def _variable(self, name: str, default: Any, variables: Any, members: list[str]) -> Any:
        """A variable of the command line, or else of the group: all its hosts must agree."""
        if name in variables:
            return self._plain(variables[name], variables)
        found = []
        # Before the first play has begun, and where only syntax is checked, Ansible has no variables of hosts.
        for host in members if "hostvars" in variables else []:
            value = variables["hostvars"][host].get(name)
            if value is not None and value not in found:
                found.append(value)
        if len(found) > 1:
            raise AnsibleError(f"{name} is {found[0]} for some nodes and {found[1]} for others; it is one for a play")
        return found[0] if found else default

    def _plain(self, value: Any, variables: Any) -> Any:
        return self._templar.template(value) if self._templar is not None else value

    def _checked(self, group: str, variables: Any) -> str:
        groups = variables.get("groups", {})
        sources = ", ".join(map(str, variables.get("ansible_inventory_sources") or [])) or "none"
        if not groups.get(group):
            there = ", ".join(sorted(name for name in groups if name not in ("all", "ungrouped"))) or "none"
            raise AnsibleError(
                f"no node would be looked at: the group {group} has no hosts (inventory: {sources}; "
                f"its groups: {there})"
            )
        limit = variables.get("ansible_limit")
        if limit:
            manager = InventoryManager(self._loader, parse=False)
            for name, members in groups.items():
                manager.add_group(name)
                for host in members:
                    manager.add_host(host, group=name)
            manager.subset(limit)
            if not manager.get_hosts(group):
                raise AnsibleError(f"no node would be looked at: --limit {limit} leaves none of the group {group}")
        return group
