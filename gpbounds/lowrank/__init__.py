"""Low-rank approximations of a GP: their KL, Fourier, Mercer and Hilbert-space features, and the ranks that suffice.

Each name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbounds.once import loaded_on_use

if TYPE_CHECKING:
    from gpbounds.lowrank.approximation import kappa as kappa
    from gpbounds.lowrank.approximation import kappa_inverse as kappa_inverse
    from gpbounds.lowrank.approximation import spectral_kl as spectral_kl
    from gpbounds.lowrank.divergence import kl as kl
    from gpbounds.lowrank.divergence import kl_by_rank as kl_by_rank
    from gpbounds.lowrank.divergence import kl_features as kl_features
    from gpbounds.lowrank.divergence import kl_from_excess as kl_from_excess
    from gpbounds.lowrank.divergence import kl_from_ratio as kl_from_ratio
    from gpbounds.lowrank.divergence import kl_from_residual as kl_from_residual
    from gpbounds.lowrank.divergence import kl_from_traces as kl_from_traces
    from gpbounds.lowrank.divergence import least_gamma as least_gamma
    from gpbounds.lowrank.divergence import log_evidence as log_evidence
    from gpbounds.lowrank.divergence import predict as predict
    from gpbounds.lowrank.features import FourierFeatures as FourierFeatures
    from gpbounds.lowrank.features import HilbertFeatures as HilbertFeatures
    from gpbounds.lowrank.features import LeverageFourierFeatures as LeverageFourierFeatures
    from gpbounds.lowrank.features import MercerFeatures as MercerFeatures
    from gpbounds.lowrank.fourier import fourier_kl as fourier_kl
    from gpbounds.lowrank.fourier import fourier_rank as fourier_rank
    from gpbounds.lowrank.frequencies import LeverageDensity as LeverageDensity
    from gpbounds.lowrank.frequencies import leverage_bound as leverage_bound
    from gpbounds.lowrank.frequencies import leverage_density as leverage_density
    from gpbounds.lowrank.given_through_basis import ThroughBasisGiven as ThroughBasisGiven
    from gpbounds.lowrank.given_y import evidence_gap as evidence_gap
    from gpbounds.lowrank.given_y import predictive_kl as predictive_kl
    from gpbounds.lowrank.hilbert import HilbertRank as HilbertRank
    from gpbounds.lowrank.hilbert import hilbert_kernel_error as hilbert_kernel_error
    from gpbounds.lowrank.hilbert import hilbert_kl as hilbert_kl
    from gpbounds.lowrank.hilbert import hilbert_rank as hilbert_rank
    from gpbounds.lowrank.hsgp import HilbertReport as HilbertReport
    from gpbounds.lowrank.hsgp import hilbert_report as hilbert_report
    from gpbounds.lowrank.hsgp import hilbert_report_of as hilbert_report_of
    from gpbounds.lowrank.through_basis import ThroughBasis as ThroughBasis
    from gpbounds.lowrank.truncation import mercer_kl as mercer_kl
    from gpbounds.lowrank.truncation import mercer_rank as mercer_rank
    from gpbounds.lowrank.truncation import optimal_kl as optimal_kl
    from gpbounds.lowrank.truncation import optimal_rank as optimal_rank
    from gpbounds.lowrank.truncation import residual_certificate as residual_certificate

_HOME = {
    "FourierFeatures": "features",
    "HilbertFeatures": "features",
    "HilbertRank": "hilbert",
    "HilbertReport": "hsgp",
    "LeverageDensity": "frequencies",
    "LeverageFourierFeatures": "features",
    "MercerFeatures": "features",
    "ThroughBasis": "through_basis",
    "ThroughBasisGiven": "given_through_basis",
    "evidence_gap": "given_y",
    "fourier_kl": "fourier",
    "fourier_rank": "fourier",
    "hilbert_kernel_error": "hilbert",
    "hilbert_kl": "hilbert",
    "hilbert_rank": "hilbert",
    "hilbert_report": "hsgp",
    "hilbert_report_of": "hsgp",
    "kappa": "approximation",
    "kappa_inverse": "approximation",
    "kl": "divergence",
    "kl_by_rank": "divergence",
    "kl_features": "divergence",
    "kl_from_excess": "divergence",
    "kl_from_ratio": "divergence",
    "kl_from_residual": "divergence",
    "kl_from_traces": "divergence",
    "least_gamma": "divergence",
    "leverage_bound": "frequencies",
    "leverage_density": "frequencies",
    "log_evidence": "divergence",
    "mercer_kl": "truncation",
    "mercer_rank": "truncation",
    "optimal_kl": "truncation",
    "optimal_rank": "truncation",
    "predict": "divergence",
    "predictive_kl": "given_y",
    "residual_certificate": "truncation",
    "spectral_kl": "approximation",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = loaded_on_use("gpbounds.lowrank", _HOME)
