"""Fault injection: break a promise on purpose, write down first how to mend it, and mend it exactly."""
