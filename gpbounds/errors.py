"""Exceptions that teach: what was expected, what was reached, what usually causes it and what to change.

Wrong arguments are plain :class:`ValueError`\\ s.  The three classes here are for numerics that could not deliver.
"""


class NotPositiveDefinite(ValueError):
    """A matrix that must be positive (semi-)definite is not, at the precision it was given in."""


class NotConverged(ArithmeticError):
    """An iteration or a discretisation did not reach the accuracy it promises; the message says how far it came."""


class NonFinite(ValueError):
    """Data or a result contains NaN or infinity; the message says where."""
