"""Scalar functions without cancellation, double-double numbers, roots and searches; imports only NumPy and arrays."""
