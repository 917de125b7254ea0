"""The values that travel between the stages; imports nothing of ours but :mod:`toolkit.errors`."""
