"""Low-rank approximations of a GP: their KL, Fourier, Mercer and Hilbert-space features, and the ranks that suffice."""

from gpbounds.lowrank.approximation import kappa, kappa_inverse, spectral_kl
from gpbounds.lowrank.divergence import (
    kl,
    kl_by_rank,
    kl_features,
    kl_from_excess,
    kl_from_ratio,
    kl_from_residual,
    kl_from_traces,
    least_gamma,
    log_evidence,
    predict,
)
from gpbounds.lowrank.features import FourierFeatures, HilbertFeatures, LeverageFourierFeatures, MercerFeatures
from gpbounds.lowrank.fourier import fourier_kl, fourier_rank
from gpbounds.lowrank.frequencies import LeverageDensity, leverage_bound, leverage_density
from gpbounds.lowrank.given_through_basis import ThroughBasisGiven
from gpbounds.lowrank.given_y import evidence_gap, predictive_kl
from gpbounds.lowrank.hilbert import HilbertRank, hilbert_kernel_error, hilbert_kl, hilbert_rank
from gpbounds.lowrank.hsgp import HilbertReport, hilbert_report, hilbert_report_of
from gpbounds.lowrank.through_basis import ThroughBasis
from gpbounds.lowrank.truncation import mercer_kl, mercer_rank, optimal_kl, optimal_rank, residual_certificate

__all__ = [
    "FourierFeatures",
    "HilbertFeatures",
    "HilbertRank",
    "HilbertReport",
    "LeverageDensity",
    "LeverageFourierFeatures",
    "MercerFeatures",
    "ThroughBasis",
    "ThroughBasisGiven",
    "evidence_gap",
    "fourier_kl",
    "fourier_rank",
    "hilbert_kernel_error",
    "hilbert_kl",
    "hilbert_rank",
    "hilbert_report",
    "hilbert_report_of",
    "kappa",
    "kappa_inverse",
    "kl",
    "kl_by_rank",
    "kl_features",
    "kl_from_excess",
    "kl_from_ratio",
    "kl_from_residual",
    "kl_from_traces",
    "least_gamma",
    "leverage_bound",
    "leverage_density",
    "log_evidence",
    "mercer_kl",
    "mercer_rank",
    "optimal_kl",
    "optimal_rank",
    "predict",
    "predictive_kl",
    "residual_certificate",
    "spectral_kl",
]
