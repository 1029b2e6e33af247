"""Exceptions for numerical failures; messages state what was expected, what happened, the usual cause and a remedy.

Wrong arguments raise a plain :class:`ValueError`.
"""


class NotPositiveDefinite(ValueError):
    """A matrix is not positive (semi-)definite at its precision, but must be."""


class NotConverged(ArithmeticError):
    """An iteration or discretisation did not reach its promised accuracy; the message states the accuracy reached."""


class NonFinite(ValueError):
    """Data or a result contain NaN or infinity; the message says where."""


class NotInstalled(ImportError, ValueError):
    """A file needs a library that is not installed; the message says how to install it."""


class RoundingWarning(UserWarning):
    """Numbers are lost in the rounding of double precision; the message says how many and what was returned instead."""


class ImpossibleInterval(RuntimeError):
    """Two bounds contradict each other, which is an error of the library; the message asks for a report.

    It is no `ArithmeticError`, which callers catch to compute in another way.
    """
