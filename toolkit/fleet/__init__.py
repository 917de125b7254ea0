"""Many results in one answer: the gate between two groups of them. Pure over what was saved."""
