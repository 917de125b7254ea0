"""What evidence may be believed to show: doubts, the two witnesses, contradictions."""
