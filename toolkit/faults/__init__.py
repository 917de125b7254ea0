"""The library of faults: each breaks a promise on purpose, writes down first how to mend it, and mends it exactly."""
