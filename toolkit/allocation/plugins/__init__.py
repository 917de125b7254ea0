"""Pluggable CPU allocators: the scheduling cycle of the "CPU Manager Plugin Model" and the plugins for it.

Source: ``../shared/seeds/002``, section "CPU Manager Plugin Model".
"""
