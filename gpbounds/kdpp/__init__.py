"""k-DPPs over the data: exact expectations of K − Q, samplers, and the choice of inducing points  (ledger F, N-dpp).

A k-DPP of size M draws Z ⊂ X, |Z| = M, with P(Z) ∝ |K_ZZ|.
"""

from gpbounds.kdpp.approximations import nystrom_tv, rounding_tv
from gpbounds.kdpp.bounds import expected_logdet_bound, trace_bound, tv_term
from gpbounds.kdpp.choosing import select
from gpbounds.kdpp.esp import log_esp
from gpbounds.kdpp.expectations import annealed_trace, expected_esp, expected_trace, log_expected_determinant
from gpbounds.kdpp.from_kernel import Sample, sample_kernel
from gpbounds.kdpp.leverage import ridge_leverage
from gpbounds.kdpp.low_rank import sample_factor
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.kdpp.other_laws import uniform_residual
from gpbounds.kdpp.record import Selection
from gpbounds.kdpp.residual import expected_residual, loewner
from gpbounds.kdpp.rpcholesky import rpcholesky, rpcholesky_residual
from gpbounds.kdpp.sampling import sample, sample_eigen
from gpbounds.kdpp.selection import greedy, residual_trace
from gpbounds.kdpp.tilted import tilted_eigenvalues

__all__ = [
    "ExpectedResidual",
    "Sample",
    "Selection",
    "annealed_trace",
    "expected_esp",
    "expected_logdet_bound",
    "expected_residual",
    "expected_trace",
    "greedy",
    "loewner",
    "log_esp",
    "log_expected_determinant",
    "nystrom_tv",
    "residual_trace",
    "ridge_leverage",
    "rounding_tv",
    "rpcholesky",
    "rpcholesky_residual",
    "sample",
    "sample_eigen",
    "sample_factor",
    "sample_kernel",
    "select",
    "tilted_eigenvalues",
    "trace_bound",
    "tv_term",
    "uniform_residual",
]
