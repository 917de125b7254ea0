"""Puts a plan on the machine and takes it off again."""
