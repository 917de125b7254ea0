"""The kubelet's state files: their bytes, versions, checksums, and which of them a kubelet starts with or refuses."""
