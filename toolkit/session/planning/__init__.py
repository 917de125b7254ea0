"""What is decided before anything runs: the plan, what is wrong with it, whether this machine can and may run it."""
