"""Bounds for the best of several draws of a k-DPP, given the inputs: y from the prior, y given, y adversarial."""
