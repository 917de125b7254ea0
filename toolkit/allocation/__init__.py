"""What the kubelet decides, computed: pure functions over values."""
