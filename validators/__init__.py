"""Rules: (claims, evidence) -> verdicts; pure. This is pinproof's package, not the one of the same name on PyPI."""
