"""PAC-Bayes: the binary kl and its inverse, risk bounds, and certificates that a third party can re-check."""
