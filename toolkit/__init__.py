"""pinproof: scenario -> plan -> sandbox -> evidence -> verdicts -> report.

Each stage is one function between two frozen values of :mod:`toolkit.model`; :mod:`toolkit.session` calls them in
order. Imports run one way: ``toolkit.text`` <- ``toolkit.model`` <- ``toolkit.kubernetes`` <- ``toolkit.allocation``,
``toolkit.host`` <- ``toolkit.apply``, ``probes``, ``validators`` <- ``toolkit.session`` <- ``toolkit.cli``.
"""

__version__ = "0.1.0"
