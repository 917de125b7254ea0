"""Reads this machine (or a saved copy of its /sys and /proc) into values; never writes."""
