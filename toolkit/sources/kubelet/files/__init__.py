"""The bytes of a kubelet's node, live or captured."""
