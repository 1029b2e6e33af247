"""The same quantities in mpmath, written from the formulas of the ledger: slow, simple, with ``mpmath.mp.dps`` digits.

One module per subject: ``linalg``, ``divergences``, ``renyi``, ``evidence``, ``spectra`` (and kernels), ``kdpp``,
``rates``, ``lowrank``, ``likelihoods``, ``losses``, ``montecarlo``, ``pacbayes``.
No module here imports fast code of :mod:`gpbounds`, so the two computations are independent.
"""
