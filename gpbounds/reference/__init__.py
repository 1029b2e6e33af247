"""The same names in mpmath, written straight from the ledger: slow, obvious, as exact as ``mpmath.mp.dps`` asks.

One module a room: ``scalars``, ``spectra``, ``matern_spectra``, ``kdpp``, ``renyi``, ``evidence``, ``family``,
``computation``, ``divergences``, ``posterior``, ``losses``, ``sandwich``, ``lowrank``, ``likelihoods``, ``montecarlo``,
``rates``.
Nothing fast in :mod:`gpbounds` is imported here, so that agreement means something.
"""
