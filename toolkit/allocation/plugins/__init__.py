"""Pluggable CPU allocators: the scheduling cycle of the "CPU Manager Plugin Model" and the plugins for it.

Source: ``docs/specification.md``, section "CPU Manager Plugin Model".
"""
