"""Programs that run inside a sandbox. They use the standard library only and are run by path, never imported.

The directory is bound read-only into OCI containers, where nothing of the toolkit's environment exists.
"""
