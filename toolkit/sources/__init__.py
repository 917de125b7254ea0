"""Where claims come from: each module reads what a tool or a node says and makes claims of it."""
