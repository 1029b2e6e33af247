"""Processes that are killed, and files that are damaged or hostile."""
