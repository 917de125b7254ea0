"""The conformance suite as pytest tests: ``pytest --pyargs validators.conformance``, one test for each scenario."""
