"""A kubelet's node: captures and live files to a reading, a reading to subjects, claims and evidence."""
