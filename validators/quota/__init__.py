"""CFS bandwidth: what a quota allows, and what shows that another one was in force."""
