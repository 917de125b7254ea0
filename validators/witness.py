"""The sources of evidence, by name: a doubt and a rule meet where they name the same one. Defined with the evidence."""

from __future__ import annotations

from toolkit.model.blind_spots import Witness

__all__ = ["Witness"]
