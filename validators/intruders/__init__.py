"""Tasks on CPUs that are not theirs."""
