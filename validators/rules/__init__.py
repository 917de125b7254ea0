"""The rules, one module each: a pure function and the page that ``pinproof explain`` prints.

What several of them ask of evidence lies beside this folder; ``validators/registry.py`` lists them.
"""
