"""`certify`: a certificate for any model, from the rows of its training or from rows that it had not seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fitting.certifying.asked import Asked
from fitting.certifying.forms import FORMS, best
from fitting.certifying.gibbs import supported
from fitting.certifying.result import finished
from gpbounds.errors import shown
from gpbounds.losses import Loss
from gpbounds.pacbayes import Charge, DeclaredMean, HyperGrid, Split
from gpbounds.pacbayes.certificate.split import ORDERS
from gpbounds.validation import choice, count, flag, open_unit, scalar

METHODS = ("pac-bayes", "data-prior", "held-out", "best")


def certify(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    method: str = "pac-bayes",
    loss: str | Loss | None = None,
    epsilon: Any = 0.6,
    delta: float = 0.01,
    coverage: float | None = None,
    share: float = 0.5,
    order: str = "random",
    random_state: int = 0,
    grid: HyperGrid | None = None,
    scaling: Any = "as given",
    mean: DeclaredMean | None = None,
    charges: Iterable[Charge] = (),
    nonrigorous: bool = False,
) -> Any:
    """A certificate that holds with probability ≥ 1 − δ over the rows, which `Certificate.check` recomputes from them.

    - "pac-bayes": R(Q) ≤ kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + Σ ln(charges) + ln(ξ(N)/δ))/N) for the Gibbs risk of a GP
      at its own N rows of training, P^θ on a grid fixed in advance (P-14, P-44, P-45, P-47, P-49).  The kernel moves to
      the nearest member of the grid, and Q is computed there.
    - "data-prior": the same, for n rows that a prior law of u, trained on the others, has not seen, without |Θ|
      (N-data-prior).
    - "held-out": the risk of the mean prediction, or of predicted labels, from n rows that the model has not seen:
      for k mistakes the 1 − δ quantile of Beta(k + 1, n − k) (N-held-out).  With ``coverage`` c: intervals m ± κs, κ
      the k-th least |y − m|/s, hold a new target with probability ≥ c (N-coverage).  For every model.
    - "best": all of these that the model allows, each with its share of δ; the least bound is returned.

    Hypotheses: iid rows; model, loss, δ, split, grid and scaling fixed before the certified rows were seen, or charged.

    Parameters
    ----------
    model : estimator, Model, path or arrays
        Unfitted: its clone is trained on ``share`` of the rows and certified by the others ("pac-bayes": both by all).
        Fitted: X, y are the rows of its training ("pac-bayes") or new ones.  An estimator of `fitting` or of
        scikit-learn, a `gpbounds.renyi.Model` with its q(u); a CSV file of predictions at all rows, with the columns
        mean, or mean and std, or label; predictions (N,), or a pair (mean, std) of them.
    X, y : arrays (N, D), (N,), or as `gpbounds.rows.source` takes them
        Raw rows, float64; a classifier has labels y.
    loss, epsilon : as in `fitting.PACGP`
        ε in units of the scaled targets; E values give E certificates, each charged ln E.  None is "band"; for labels
        it is "zero-one", which bounds mistakes ("held-out"), or Sign ("data-prior").
    share, order, random_state : float, "random" or "as given", int
        The split for an unfitted model, as in `gpbounds.pacbayes.Split`; "as given" trains on the first rows, for rows
        in the order of time.
    grid : HyperGrid, optional
        For "pac-bayes"; None: the grid of the model, or ln θ from −6 to 6 in steps of 0.01.
    scaling : "as given", "prior", a Scaling, or a pair (inputs, outputs)
        How raw data are scaled for the model.  "prior": by means and deviations of the rows of training; "pac-bayes"
        then trains and certifies by the others.  A model with ``normalize_y=True`` is refused by "pac-bayes", unless a
        pair declares the origin of its constants.
    mean : DeclaredMean, optional
        For a GP whose prior has a `gpbounds.means.LinearMean`: the same function with its origin.
    charges : sequence of Charge
        Further choices from lists that were made in advance: the better of two models costs ln 2.
    nonrigorous : bool
        Accept constants from the same data; the certificate then says that it guarantees nothing.

    Returns
    -------
    Certificate, HeldOutCertificate or CoverageCertificate, or a tuple of them for several ε
        With ``print()``, ``save("certificate.json")`` or ``save("page.html")``, ``plot()``; ``forms``, all certificates
        that hold together; and ``model``, what was trained, from which the Q of "data-prior" starts.

    Raises
    ------
    ValueError
        for a model or data that the method does not take, rows that the model has seen, and as `Certificate.issue`.

    Warns
    -----
    UserWarning
        if a hyperparameter is moved to the edge of the grid, or a form of "best" fails.

    >>> from fitting import ExactGP
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> certificate = certify(ExactGP().fit(X, y), X, y, epsilon=0.5, delta=0.05)
    >>> certificate.check(X, y).confirmed, certificate.bound < 0.5
    (True, True)
    >>> certify(ExactGP(), X, y, method="held-out", epsilon=0.5, delta=0.05).bound < 0.04  # no mistake in 100 rows
    True
    """
    choice("method", method, METHODS)
    level = None if coverage is None else scalar(open_unit, "coverage", coverage)
    if level is not None and method != "held-out":
        raise ValueError(f"coverage: expected None for method={method!r}, got {coverage!r}: pass method='held-out'")
    flag("nonrigorous", nonrigorous)
    choice("order", order, ORDERS)
    scalar(open_unit, "share", share)
    paid = tuple(charges) if isinstance(charges, Iterable) else (charges,)
    if not all(isinstance(charge, Charge) for charge in paid):
        raise ValueError(f"charges: expected a sequence of gpbounds.pacbayes.Charge, got {shown(charges)}")
    if method == "pac-bayes":
        supported(model)
    split = Split(order, share, count("random_state", random_state, 0))
    asked = Asked(model, X, y, loss, epsilon, delta, split, grid, scaling, mean, paid, nonrigorous, level)
    if method == "best":
        certificates = best(asked)
    else:
        certificates = [finished(*each) for each in FORMS[method](asked)]
    return tuple(certificates) if np.ndim(epsilon) and level is None else certificates[0]
