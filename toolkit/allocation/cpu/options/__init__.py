"""Options of the static policy, a module each: its gate, its conflicts, what it changes, what it promises."""
