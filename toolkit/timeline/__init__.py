"""What was promised when: the one form in which a promise is kept, and the one answer to what a claim held at a moment.

:mod:`~toolkit.timeline.held` is the form, :mod:`~toolkit.timeline.saved` makes it of what evidence says of a window,
:mod:`~toolkit.timeline.ran` asks it about the time that the ledger counted outside a set. Pure.
"""
