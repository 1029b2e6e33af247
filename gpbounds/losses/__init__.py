"""Bounded losses under a Gaussian prediction: their expectations and the derivatives in its mean and variance."""
