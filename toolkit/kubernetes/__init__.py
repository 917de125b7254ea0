"""Kubernetes as text: pods, quantities, KubeletConfiguration, feature gates, what changed with which release."""
