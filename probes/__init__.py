"""Witnesses: they observe and count, they never judge."""
