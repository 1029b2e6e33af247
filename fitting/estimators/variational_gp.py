"""Sparse Gaussian processes with any likelihood of real numbers or counts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fitting.estimators.regression import Scored
from fitting.estimators.variational import Variational
from fitting.starts.starts import default_likelihood
from gpbounds.arrays import Array, Float, kind_of_caller
from gpbounds.errors import shown
from gpbounds.files import mapped
from gpbounds.likelihoods import Bernoulli, Likelihood, Poisson
from gpbounds.rows import Source
from gpbounds.validation import flag, open_unit, scalar


@dataclass(eq=False, repr=False)
class VariationalGP(Scored, Variational):
    """Sparse Gaussian process with a free law q of the inducing variables, for real targets or counts.

    It minimises J = Σ ℓ(y_i, m_i, s_i) + β·KL(q‖p) (`fitting.objectives.objective`) in the kernel, the likelihood's own
    parameters, the inducing inputs and q.  A step takes O(NM²) time, or O(nM² + M³) with batches of n rows.

    Claims D-01 … D-09 (Wei et al., DLM).  Only the objective "elbo" with β = 1 bounds log p(y).

    Parameters
    ----------
    n_inducing : int
        M; at most the distinct rows of X are used.
    likelihood : Likelihood, or "gaussian", "student-t", "poisson" (rate e^f) or "poisson-softplus"
        The start; its own parameters are trained unless they are ``fixed``.  A name stands for parameters at the scale
        of y.
    objective : "elbo", "log-loss", "square-loss", "power" or "pep"
        ℓ: −E log p(y|f); −log E p(y|f), direct loss minimisation; ½(y − m)², for a Gaussian likelihood;
        −(1/a) log E p(y|f)^a with a = ``power``; power EP, for a Gaussian likelihood: a = 0 is VFE and 1 FITC, with
        mini-batches, too.
    beta : float or "auto"
        "auto": a fifth of the rows judges β = n, n/2, n/4, … ≥ 0.01 by −log E p(y|f), or by the square loss for
        "square-loss"; then all rows are fitted with the best.
    hyperparameters : "joint" or "fixed"
        "fixed": an ELBO (β = 1) trains everything, and ``objective`` then trains q alone.  "joint": ``objective``
        trains everything, from the end of the ELBO and from the first start, of which the better is kept; for
        "square-loss" the kernel's variance and the noise stay as the ELBO left them.
    gradient : "exact", "bmc", "smooth-bmc" or "ups"
        Derivatives of the losses in closed form or by quadrature; or, for "log-loss" with "adam" or "natgrad", from new
        samples in every step (`Sampling` of `fitting.objectives.losses`).  The ELBO that comes first is exact, and so
        is ``objective_``.
    samples : int
        Number of samples of each row, for gradients that are sampled.
    smoothing : float
        c of "smooth-bmc", in units of p(y|f).
    power : float in [0, 1]
        a, for "power" and "pep".
    structure : None or "diagonal"
        "diagonal", for "elbo" with β = 1 and likelihoods that are log-concave in f, all but "student-t": each row has a
        conditional variance of f given u of its own, the best one, in place of the prior's (N-sidak;
        `fitting.objectives.narrowed`).  J is then a larger lower bound on log p(y), in mini-batches, too; for Gaussian
        noise it is that of ``SparseGP(structure="diagonal")``.  Predictions take q(u) alone, as without it.  Losses
        without a closed form take about five times as long.
    kernel : Kernel, optional
        As in `ExactGP`.  For counts the exact fits of ``start`` are those of log(y + ½).
    noise : float, optional
        σ² at the start, for a Gaussian likelihood only.
    inducing, learn_inducing : as in `SparseGP`, without "best"
        Beyond 20 000 rows, the choice is made among so many random ones.
    optimizer : "lbfgs", "adam", "natgrad" or None
        "natgrad": natural-gradient steps for q (`fitting.training.adam`) and Adam for the rest.
    batch_size : int, optional
        Rows of a mini-batch, for "adam" and "natgrad".
    natural_rate : float in (0, 1], optional
        Rate ρ of natural-gradient steps.  None: 1 where one step reaches the optimum (a Gaussian likelihood, all rows),
        otherwise 0.1.
    max_iter, tol, learning_rate, n_restarts, start, lengthscales, fixed, limits, normalize_y, mean, random_state, \
device, progress, checkpoint : as in `ExactGP`
        ``mean`` is that of f: for counts of the logarithm of the rate, or before softplus.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 6.0, 60)[:, None]
    >>> y = np.random.default_rng(0).poisson(np.exp(1.0 + np.sin(X[:, 0])))
    >>> model = VariationalGP(8, "poisson", kernel=SquaredExponential(), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.5]])[0] - np.exp(2.0)) < 2.0)
    True
    """

    n_inducing: int = 100
    likelihood: Any = "gaussian"
    objective: str = "elbo"
    noise: float | None = field(default=None, kw_only=True)
    _one_noise: ClassVar[str] = (
        "its likelihood has one parameter for all rows; SparseGP takes a noise for each row, and so does fit(X, y, "
        "sample_weight=1/noise) with noise=1.0 and fixed='noise'"
    )
    _partitions: ClassVar[bool] = True

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, client: Any = None) -> Self:
        """Train on X (N, D) and y (N,): arrays, or rows that are read by partitions.

        A `numpy.memmap` X of doubles in C order, or the path of a .npy file, stays on its disk: mini-batches read their
        rows, and passes over all rows read them in chunks (two such passes with ``batch_size``).  Memory is needed for
        y, and for the rows that the start and the choice of inducing points use, at most 20 000; ``beta="auto"`` reads
        all rows into memory.

        The rows of Parquet files and of Dask collections (`gpbounds.rows.source`) are written once to a memory map
        in the folder for temporary files, 8·N·D bytes, and read from there on this machine: every mini-batch consists
        of random rows, also of sorted files.  ``X_train_`` is empty after training.

        The model keeps the best point seen; after Ctrl-C, too, with a warning.  If Ctrl-C ends the choice of β, that is
        the model of the best β so far, which was trained on four fifths of the rows.

        Parameters
        ----------
        X, y : arrays
            Or what `gpbounds.rows.source` takes.
        sample_weight : array (N,), optional
            Factors w_i ≥ 0 of the losses ℓ_i of rows in memory: J = Σ w_i ℓ_i + β·KL(q‖p).  A whole number counts its
            row that often; for Gaussian noise a row of weight w has the noise σ²/w.  Rows of weight 0 are left out.
            `log_evidence_bounds` refuses such a model.  Not for "pep", ``structure``, sampled gradients,
            ``beta="auto"`` and ``normalize_y``.
        client : distributed.Client, optional
            Where Dask reads the rows.

        Raises
        ------
        ValueError
            for wrong arguments, targets that the likelihood does not admit, NaN or infinity, or a checkpoint of other
            data or settings.
        NotPositiveDefinite
            when a covariance does not factorise at the start of training.

        Warns
        -----
        ConvergenceWarning
            when all iterations were used, a line search failed, training was interrupted, or a hyperparameter lies on
            its limit.
        """
        if isinstance(X, str | os.PathLike) and os.fspath(X).endswith(".npy") and client is None:
            X, y = mapped(X), np.array(mapped(y)) if isinstance(y, str | os.PathLike) else y
        return super().fit(X, y, sample_weight=sample_weight, client=client)

    def _takes_single_rows(self) -> bool:
        return True

    def _check_source(self, rows: Source) -> None:
        if rows.P != 1:
            raise ValueError(f"y: expected one target for each row of X, got {rows.P} columns")

    def partial_fit(self, X: ArrayLike | Array, y: ArrayLike | Array, *, N: int | None = None) -> Self:
        """Take stochastic steps on the rows X (n, D), y (n,), and keep the state of the optimiser for the next call.

        A call takes one step, or one for every ``batch_size`` consecutive rows.  The first call chooses the start from
        its own rows (kernel, likelihood, inducing points, units), as `fit` does from all; after `fit`, the first call
        starts at the fitted model.  The steps are those of `fit` with mini-batches: natural-gradient steps for q with
        "natgrad", and Adam's for the rest; with "lbfgs" Adam's for everything.  They minimise ``objective`` from the
        first step on, without the ELBO that `fit` trains first; ``hyperparameters="fixed"`` trains q alone.

        Parameters
        ----------
        N : int, optional
            The number of rows of the whole data: the losses of n rows count N/n times.  None: as in the call before; in
            the first call, the number of its rows.

        The model is the end of the last step; ``objective_`` is the estimate of −J by the last batch, before its step.
        ``X_train_`` and ``y_train_`` are the rows of the last call.  `save` does not store the state of the optimiser.

        Raises
        ------
        ValueError
            for wrong arguments, for ``beta="auto"`` and ``optimizer=None``, and targets that the likelihood refuses.
        NotPositiveDefinite, NonFinite, ArithmeticError
            when J has no value at the start.

        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> model = VariationalGP(8, optimizer="natgrad", random_state=0)
        >>> for _ in range(60):
        ...     X = rng.uniform(0.0, 6.0, (50, 1))
        ...     model = model.partial_fit(X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(50), N=3000)
        >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.2)
        True
        """
        return self._partial_fit(X, y, N)

    @kind_of_caller
    def predict(
        self,
        X: ArrayLike | Array,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noisy: bool = False,
        noise: ArrayLike | None = None,
    ) -> Any:
        """Mean of y at X (N*, D); for real targets, on request with the standard deviation or covariance of f.

        ``return_std=True`` gives the standard deviation of f, without noise; ``noisy=True`` with it that of a new y,
        for a Gaussian likelihood.  `predict_interval` is about a new y with any likelihood.

        Parameters
        ----------
        X : array (N*, D), NumPy or CuPy
        return_std, return_cov : bool
            At most one of the two, for real targets; `latent` has them for counts, too.
        noisy : bool
            True adds σ² to the variances, for a Gaussian likelihood only.
        noise : as in `GaussianProcess.predict`
        """
        self._fitted()
        if flag("noisy", noisy):
            self._gaussian_only("noisy")
        if not isinstance(self.likelihood_, Poisson):
            return self._latent(X, return_std, return_cov, noisy=noisy, noise=noise)
        if flag("return_std", return_std) | flag("return_cov", return_cov):
            raise ValueError(
                "return_std, return_cov: expected False for counts, got True: latent(X, return_std=True) describes f"
            )
        mean, variance, _ = self._moments(X)
        return self.likelihood_.predictive_mean(mean, variance)

    @kind_of_caller
    def predict_interval(self, X: ArrayLike | Array, level: float = 0.95) -> tuple[Array, Array]:
        """The central interval of a new y at each row of X (N*, D): its (1 ∓ ``level``)/2 quantiles.

        They invert the predictive law exactly (`gpbounds.likelihoods.Likelihood.predictive_quantile`): an interval
        holds y with a probability of ``level``, and of more for counts.

        Returns
        -------
        low, high : arrays (N*,), on the device of X
        """
        share = scalar(open_unit, "level", level)
        if 0.5 * (1.0 + share) == 1.0:
            raise ValueError(f"level: expected a number below 1 by 2^-52 at least, got {share!r}")
        mean, variance, _ = self._moments(X)
        shift, scale = float(self.y_mean_[0]), float(self.y_scale_[0])
        ends = [
            self.likelihood_.predictive_quantile(0.5 * (1.0 + sign * share), mean, variance) * scale + shift
            for sign in (-1.0, 1.0)
        ]
        return ends[0], ends[1]

    def _checked_likelihood(self, Y: Float) -> Likelihood:
        likelihood = default_likelihood(self.likelihood, Y)
        if isinstance(likelihood, Bernoulli):
            raise ValueError(
                f"likelihood: expected one for real numbers or counts, got {shown(self.likelihood)}: "
                "VariationalGPClassifier serves labels"
            )
        if self.noise is not None and self.likelihood != "gaussian":
            raise ValueError(f"noise: expected None for likelihood={self.likelihood!r}, got {shown(self.noise)}")
        if self.normalize_y and isinstance(likelihood, Poisson):
            raise ValueError("normalize_y: expected False for counts, got True")
        return likelihood
