"""PAC-GP: the exact posterior of a Gaussian process, trained by its risk certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fitting.estimators.kinds import Full, Kind, OfRowNoise
from fitting.estimators.pac import PacGaussianProcess
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.objective import Member, member
from fitting.objectives.point import Parameters
from fitting.training import Run
from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.pacbayes import HyperGrid


@dataclass(eq=False, repr=False)
class PACGP(PacGaussianProcess):
    """Gaussian process regression whose hyperparameters and noise minimise a PAC-Bayes bound on its Gibbs risk.

    B = kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + ln E + ln(ξ(N)/δ))/N),  R_S(Q) = (1/N) Σ E ℓ(y_i, f(x_i)), f ~ Q, where
    Q is the exact GP posterior with noise variance σ².  A step takes O(N³) time and O(N²) memory.

    Claims P-08, P-14, P-20, P-22, P-44 … P-49 (Reeb et al., PAC-GP, Eqs. 5–8, §3.1).  Hypotheses: rows are independent
    draws from one law, and ``epsilon``, ``delta``, ``loss``, ``grid``, ``scaling``, ``mean`` and the kernel family were
    chosen before the data were seen.  The start of training, σ², ``relaxation``, restarts and the settings of the
    optimiser may depend on the data.  Pass several ε as one sequence, which costs ln E (P-47).  Do not choose
    ``epsilon`` (or the grid, the loss, the kernel family) by `GridSearchCV`: the choice depends on the data, and the
    bound does not pay for it.

    Parameters
    ----------
    epsilon : float or sequence of floats
        ε of the loss, in the units of the scaled targets.  A sequence gives a model and a certificate for each ε; the
        estimator predicts with the model of the first.
    delta : float in (0, 1)
        Probability that the certificate is wrong; for several ε, that any of the certificates is wrong.
    loss : "band", "squared", "exponential", "relative", "interval" or a gpbounds.losses.Loss
        "band" is 0 within ±ε of the target and 1 outside; for "relative" and "interval" ε is a share of |y|, and
        "interval" is the band of ±ε|y|.  A `Loss` has its own ε, and ``epsilon`` is then ignored.
    relaxation : "kl" or "pinsker"
        Training minimises B, or Pinsker's bound B_Pin ≥ B of `fitting.bounds.Target`.  The certificate states B in both
        cases.
    grid : HyperGrid, optional
        None: ln θ from −6 to 6 in steps of 0.01 for each hyperparameter of the kernel, in the units of the scaled data.
    kernel : Kernel, optional
        The kernel family, and the start of training: any of `gpbounds.kernels` (Matérn of half-integer ν), sums,
        products and kernels on columns.  None: as in `ExactGP`, moved into the box of the grid.
        ``SquaredExponential(1.0, 1.0)`` has one lengthscale for all columns, and so a smaller grid.
    noise : float or array (N,), optional
        σ² at the start of training.  None: as in `ExactGP`.  An array has the noise variance of each row, in squared
        units of y, and is not trained; the certificate then states Q by its law at the distinct rows, N²/2 numbers.
    scaling : "as given", a Scaling, or a pair (inputs, outputs)
        "as given" asserts that the units were fixed before the data were seen; the check of the certificate reports
        this assertion first.  A `gpbounds.pacbayes.Scaling` declares the origin of its constants; the estimator applies
        it, and predicts in raw units.
    mean : "zero", gpbounds.pacbayes.DeclaredMean or MeanGrid
        The prior's mean, in the units of the scaled data; for losses of y − f.  A `DeclaredMean` names the origin of
        its coefficients: fixed before the data were seen, or from rows that the certificate does not cover.
        With a `MeanGrid` the function of the grid near least squares on the certified rows is taken, and
        its choice is charged.  The certificate holds it and its check needs it.
    prior : "grid" or "data"
        "data": a share of the rows, by a `Split` that is fixed before they are seen, trains an `ExactGP` with these
        settings, and its law of f is P: hyperparameters, noise and P are not charged (N-data-prior).  Q starts at P, is
        updated by the other n rows with a free noise and trained by their bound, with ξ(n) and without |Θ|; the
        certificate is about them.  At most 1500 rows.  ``scaling="prior"`` then scales by means and deviations of the
        prior's rows, ``mean`` may be "constant" or "linear", ``limits`` are for every parameter, and there is no grid.
    share, order : float, "random" or "as given"
        For ``prior="data"``: the share of the rows that gives the prior, drawn by ``random_state`` (None is 0), or the
        first rows: for rows in the order of time, of which a random share would let the prior see the future.
    nonrigorous : bool
        Accept constants from the same data, for comparisons; the first line of the certificate then says that it
        guarantees nothing.
    tol : float or None
        As in `ExactGP`, in units of B.
    optimizer, max_iter, learning_rate, n_restarts, start, random_state, device, progress, checkpoint : as in `ExactGP`
        ``max_iter`` applies to training before rounding, and again to training at the rounded θ.
    fixed : str or tuple of str
        As in `ExactGP`: what is not trained; hyperparameters of the kernel are still rounded to the grid.
    limits : dict with the key "noise", optional
        None: the noise may change by a factor of 1e6 from its start.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = PACGP(epsilon=0.5, delta=0.05).fit(X, y)
    >>> model.certificate_.check(X, y).confirmed, model.bound_ < 0.3
    (True, True)
    >>> updated = PACGP(epsilon=0.5, delta=0.05, prior="data").fit(X, y)
    >>> updated.certificate_.check(X, y).confirmed, updated.certificate_.rows, updated.bound_ < 0.08
    (True, 100, True)
    """

    epsilon: Any = 0.6
    delta: float = field(default=0.01, kw_only=True)
    loss: Any = field(default="band", kw_only=True)
    relaxation: str = field(default="kl", kw_only=True)
    grid: HyperGrid | None = field(default=None, kw_only=True)
    kernel: Kernel | None = field(default=None, kw_only=True)
    noise: Any = field(default=None, kw_only=True)

    def _member(self) -> Member:
        return member("exact")

    def _kind(self) -> Kind:
        rows = self._unit_rows()
        return Full() if rows is None else OfRowNoise(self._member(), rows, self.noise_)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        outcomes = trainer.best_of("exact", start, self.n_restarts, lambda point, i: point)
        return outcomes[0], [outcome.run for outcome in outcomes]
