"""The kubelet's state files, judged: what ``checkpoint`` asks."""
