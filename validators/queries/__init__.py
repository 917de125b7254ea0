"""What rules of every kind ask of evidence."""
