"""Rows of data: what they are, their features, and passes over them."""
