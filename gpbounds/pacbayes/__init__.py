"""PAC-Bayes: the binary kl and its inverse, risk bounds, and certificates that a third party can check again.

Each name is loaded on first use: the formulas need nothing of the certificates.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpbounds.pacbayes.binary_kl import kl as kl
    from gpbounds.pacbayes.certificate import Certificate as Certificate
    from gpbounds.pacbayes.certificate import Charge as Charge
    from gpbounds.pacbayes.certificate import CoverageCertificate as CoverageCertificate
    from gpbounds.pacbayes.certificate import DeclaredMean as DeclaredMean
    from gpbounds.pacbayes.certificate import Exact as Exact
    from gpbounds.pacbayes.certificate import Free as Free
    from gpbounds.pacbayes.certificate import HeldOutCertificate as HeldOutCertificate
    from gpbounds.pacbayes.certificate import MeanGrid as MeanGrid
    from gpbounds.pacbayes.certificate import Scaling as Scaling
    from gpbounds.pacbayes.certificate import Sparse as Sparse
    from gpbounds.pacbayes.certificate import Split as Split
    from gpbounds.pacbayes.certificate import Updated as Updated
    from gpbounds.pacbayes.certificate import Whitened as Whitened
    from gpbounds.pacbayes.grid import HyperGrid as HyperGrid
    from gpbounds.pacbayes.holdout import CoverageFactor as CoverageFactor
    from gpbounds.pacbayes.holdout import coverage_factor as coverage_factor
    from gpbounds.pacbayes.holdout import coverage_rank as coverage_rank
    from gpbounds.pacbayes.holdout import holdout_bound as holdout_bound
    from gpbounds.pacbayes.inverse import kl_inverse as kl_inverse
    from gpbounds.pacbayes.penalty import grid_penalty as grid_penalty
    from gpbounds.pacbayes.penalty import log_penalty as log_penalty
    from gpbounds.pacbayes.penalty import mixture_kl as mixture_kl
    from gpbounds.pacbayes.penalty import xi as xi
    from gpbounds.pacbayes.procedure import issue_certificate as issue_certificate
    from gpbounds.pacbayes.theorems import batch_bound as batch_bound
    from gpbounds.pacbayes.theorems import batch_risk_bound as batch_risk_bound
    from gpbounds.pacbayes.theorems import bayes_factor as bayes_factor
    from gpbounds.pacbayes.theorems import bayes_risk_bound as bayes_risk_bound
    from gpbounds.pacbayes.theorems import bound as bound
    from gpbounds.pacbayes.theorems import tandem_bound as tandem_bound

_HOME = {
    **dict.fromkeys(("Certificate", "Charge", "DeclaredMean", "Exact", "Free", "MeanGrid"), "certificate"),
    **dict.fromkeys(("CoverageCertificate", "HeldOutCertificate"), "certificate"),
    **dict.fromkeys(("Scaling", "Sparse", "Split", "Updated", "Whitened"), "certificate"),
    **dict.fromkeys(("CoverageFactor", "coverage_factor", "coverage_rank", "holdout_bound"), "holdout"),
    **dict.fromkeys(("grid_penalty", "log_penalty", "mixture_kl", "xi"), "penalty"),
    **dict.fromkeys(("batch_bound", "batch_risk_bound", "bayes_factor", "bayes_risk_bound", "bound"), "theorems"),
    "HyperGrid": "grid",
    "issue_certificate": "procedure",
    "kl": "binary_kl",
    "kl_inverse": "inverse",
    "tandem_bound": "theorems",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"gpbounds.pacbayes.{_HOME[name]}"), name)
    raise AttributeError(f"module 'gpbounds.pacbayes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
