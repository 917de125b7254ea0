"""The CPU Manager: which CPUs a container owns, which the others share, which NUMA nodes could serve a request."""
