"""The one engine: windows are opened, watched, closed, serialised, read back and judged here and nowhere else."""
