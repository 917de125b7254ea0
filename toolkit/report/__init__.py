"""Renders verdicts: table, JSON, JUnit XML, metrics. Makes no decisions."""
