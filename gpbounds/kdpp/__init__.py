"""k-DPPs over the data: exact expectations of K − Q, exact sampling, and greedy selection  (ledger F, N-dpp).

A k-DPP of size M draws Z ⊂ X, |Z| = M, with P(Z) ∝ |K_ZZ|.
"""

from gpbounds.kdpp.bounds import expected_logdet_bound, trace_bound, tv_term
from gpbounds.kdpp.esp import log_esp
from gpbounds.kdpp.expectations import annealed_trace, expected_esp, expected_trace, log_expected_determinant
from gpbounds.kdpp.sampling import sample, sample_eigen
from gpbounds.kdpp.selection import greedy, residual_trace

__all__ = [
    "annealed_trace",
    "expected_esp",
    "expected_logdet_bound",
    "expected_trace",
    "greedy",
    "log_esp",
    "log_expected_determinant",
    "residual_trace",
    "sample",
    "sample_eigen",
    "trace_bound",
    "tv_term",
]
