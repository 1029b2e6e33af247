"""Scalar functions without cancellation, numbers of twice the digits, roots and searches: NumPy and nothing above."""
