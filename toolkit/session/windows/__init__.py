"""What is over many windows: sums, series, what metrics count. Pure."""
