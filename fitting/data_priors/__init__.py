"""Priors from rows that a certificate does not cover, and the posteriors that update them."""
