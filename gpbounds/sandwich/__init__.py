"""From a KL divergence to means, variances and predictions: the two roots of x - 1 - log x = 2γ, and Prop. 4."""
