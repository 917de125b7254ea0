"""The stages, called in order: plan, apply, observe, judge, report."""
