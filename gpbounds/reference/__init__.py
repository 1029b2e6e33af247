"""The same quantities in mpmath, written from the formulas of the ledger: slow, simple, with ``mpmath.mp.dps`` digits.

One module per subject: ``scalars``, ``spectra``, ``matern_spectra``, ``kdpp``, ``renyi``, ``evidence``, ``family``,
``computation``, ``divergences``, ``posterior``, ``losses``, ``sandwich``, ``lowrank``, ``likelihoods``, ``montecarlo``,
``ranks``, ``rates``.
No module here imports fast code of :mod:`gpbounds`, so the two computations are independent.
"""
