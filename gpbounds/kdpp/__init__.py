"""k-DPPs over the data: exact expectations of K − Q, samplers, and the choice of inducing points  (ledger F, N-dpp).

A k-DPP of size M draws Z ⊂ X, |Z| = M, with P(Z) ∝ |K_ZZ|.  Functions of eigenvalues take them as they are
computed: those in [−N·eps·λ_max, 0) count as 0 (`gpbounds.linalg.psd.computed_eigenvalues`), lower ones are refused.
"""

from gpbounds.kdpp.approximations import nystrom_tv, rounding_tv
from gpbounds.kdpp.choosing import greedy, residual_trace, select
from gpbounds.kdpp.draws import ridge_leverage, rpcholesky, rpcholesky_residual
from gpbounds.kdpp.esp import log_esp, tilted_eigenvalues
from gpbounds.kdpp.expectations import (
    annealed_trace,
    expected_esp,
    expected_logdet_bound,
    expected_trace,
    log_expected_determinant,
    trace_bound,
    tv_term,
)
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.kdpp.record import Selection
from gpbounds.kdpp.residual import expected_residual, loewner, uniform_residual
from gpbounds.kdpp.sampling import Sample, sample, sample_eigen, sample_factor, sample_kernel

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
