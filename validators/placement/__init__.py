"""Where CPU sets lie: cores, caches, nodes and sockets."""
