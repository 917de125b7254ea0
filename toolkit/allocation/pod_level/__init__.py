"""Pod-level resource managers (KEP-5526): how the CPUs and memory of a pod are divided among its containers."""
