"""Claims that come, change and go while windows follow each other."""
