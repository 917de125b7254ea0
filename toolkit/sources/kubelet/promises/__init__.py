"""What a kubelet promises: of one pod, and of the node."""
