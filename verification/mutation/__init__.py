"""Mutation testing: put small faults into the library one by one, and check that the tests notice each fault.

``operators`` creates faults from the syntax tree, ``choosing`` samples them and adds those chosen by hand, ``touching``
records which tests run which lines, ``trial`` runs the tests against one fault in a copy of the tree, ``watch`` is the
pytest plugin for these runs, and ``results`` stores and counts the verdicts.
"""
