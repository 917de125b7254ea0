"""Where claims come from: readers of what others say about their cgroups."""
