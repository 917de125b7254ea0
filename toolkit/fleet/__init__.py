"""Many results in one answer: the gate between two groups of them, and many nodes at once. Pure over what is saved."""
