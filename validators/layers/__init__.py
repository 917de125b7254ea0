"""The layers of a node, of one moment and over a window, for ``layers-agree``."""
