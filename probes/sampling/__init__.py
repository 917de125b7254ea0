"""Samplers beside the programs: thread masks, CPU time of cgroups, and what the kernel counts for the whole machine."""
