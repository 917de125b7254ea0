"""JSON, YAML, names of the kernel and wording: text, and no concept of ours."""
