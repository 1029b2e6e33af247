"""The variational objective J, for any likelihood, as a function of (kernel, likelihood, Z, q(v) = N(w, CCᵀ)).

    J = (N/n) Σ ℓ(y_i, m_i, s_i) + β·KL(q‖p),      m_i = wᵀv_i,    s_i = r_i + v_iᵀCCᵀv_i,

with the losses of `fitting.expected` and a sum over n of the N rows.  For the loss "elbo" and β = 1, −J is a lower
bound on log p(y).  For another β and for the other losses J bounds nothing (D-01, D-02); they serve predictions.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from fitting import family
from fitting.data import Data
from fitting.goals import ExpectedLosses, loss_of
from fitting.laws import FreeLaw
from fitting.objective import Objective
from fitting.starts import default_likelihood
from gpbounds.arrays import Array
from gpbounds.likelihoods import Likelihood
from gpbounds.linalg import Jitter
from gpbounds.validation import closed_unit, positive, scalar


def variational_objective(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    likelihood: str | Likelihood = "gaussian",
    objective: str = "elbo",
    *,
    beta: float = 1.0,
    power: float = 1.0,
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> Objective:
    """J of variational inference and of direct loss minimisation, for one output.

    Claims D-01 … D-09 (Wei et al., DLM, §§1, 2, 5).

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
        All computations run on the device of X, in float64.
    y : array (N,) or (N, 1)
        Real numbers; labels in {0, 1} or {−1, 1}; counts.
    likelihood : Likelihood, or "gaussian", "probit", "logit", "poisson", "poisson-softplus" or "student-t"
        A name stands for parameters at the scale of y.  It decides which y are admitted; each point has its own.
    objective : "elbo", "log-loss", "square-loss", "power" or "pep"
        The loss: a row of the table in `fitting.expected`, or `fitting.expected.PowerEP`.
    beta : float
        β > 0.
    power : float in [0, 1]
        a, for "power" and "pep".
    jitter, chunk, keep : as in `fitting.family.objective`

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, and for y that the likelihood does not admit.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Z, kernel = np.linspace(0.0, 6.0, 50), np.array([[1.0], [3.0], [5.0]]), SquaredExponential()
    >>> J = variational_objective(X, np.sin(X) > 0.0, "probit")
    >>> start = J.complete(Parameters(kernel, J.likelihood, Z))
    >>> round(J.evaluate(kernel, J.likelihood, Z, start.q.mean, start.q.factor).value, 6)  # q is the prior
    -50.0
    """
    data = family.objective(X, y, "vfe", jitter=jitter, chunk=chunk, keep=keep).data
    assert isinstance(data, Data)
    if data.Y.shape[1] != 1:
        raise ValueError(f"y: expected one target for each row of X, shape (N,) or (N, 1), got {data.Y.shape}")
    chosen = default_likelihood(likelihood, data.Y)
    loss_of(chosen, objective, power)
    chosen.log_density(data.Y, 0.0)  # a likelihood may refuse targets
    a, factor = scalar(closed_unit, "power", power), scalar(positive, "beta", beta)
    return Objective(data, FreeLaw(), ExpectedLosses(chosen, objective, factor, a))
