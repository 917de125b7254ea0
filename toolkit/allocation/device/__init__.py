"""The Device Manager: which devices a container gets, and on which NUMA nodes they sit."""
