"""BPF sources (dialect: BCC, compiled at load)."""
