"""A kubelet node: what its files, sockets and cgroups say."""
