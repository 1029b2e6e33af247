"""Mutation testing: small faults are put into the library one by one, and the tests must notice each.

``operators`` makes faults from the syntax tree, ``choosing`` samples them and adds those picked by hand, ``touching``
knows which tests run which lines, ``trial`` runs the tests against one fault in a copy of the tree, ``watch`` is the
pytest plugin in there, and ``results`` keeps and counts what came out.
"""
