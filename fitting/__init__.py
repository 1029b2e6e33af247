"""Trained models that the bounds of :mod:`gpbounds` speak of.

Nothing is trained yet: this package is the room kept for the collapsed family (VFE, FITC, power EP, Rényi, exact GP)
and for PAC-Bayes training.  ``fitting`` imports ``gpbounds``; ``gpbounds`` never imports ``fitting``.
"""
