"""Low-rank approximations of a GP: their KL divergence, random Fourier and Mercer features, and the ranks that suffice."""
