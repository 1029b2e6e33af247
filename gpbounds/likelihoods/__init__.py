"""Likelihoods p(y|f): densities, proved ranges of their derivatives, and expectations under a Gaussian f."""
