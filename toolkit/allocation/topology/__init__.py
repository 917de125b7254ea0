"""The Topology Manager: which NUMA nodes all managers agree on, and whether the pod may stay if they do not."""
