"""Biased Monte Carlo: how many samples a direct loss needs, how biased it is, and exact product sampling."""
