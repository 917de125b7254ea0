"""The Memory Manager: on which NUMA nodes a Guaranteed pod's memory and huge pages are held, and how much is left."""
