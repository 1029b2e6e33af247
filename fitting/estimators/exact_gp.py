"""The exact Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.estimators.regression import Regression
from fitting.estimators.solving import Solving
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.objective import Member, Objective, member
from fitting.objectives.point import Parameters
from fitting.training import Run
from gpbounds.arrays import Float, kind_of_caller
from gpbounds.kernels import Kernel
from gpbounds.validation import finite


@dataclass(eq=False, repr=False)
class ExactGP(Regression, Solving):
    """Gaussian process regression with log p(y) = log N(y; 0, K + σ²I) as its objective.

    A step takes O(N³) time and O(N²) memory; an iterative step takes O(N²) time for an estimate with a standard error.
    With ``batch_size`` B a step takes O(B³) (sub-sampled covariances, Yue & Kontar, Rényi divergence objective, Sec.
    6.1), but predictions use all of K.

    Parameters
    ----------
    kernel : Kernel, str or scikit-learn kernel, optional
        The start of training.  A name stands for a kernel at the scale of the data, as ``start`` says: "se" or "rbf",
        "matern12", "matern32", "matern52", "matern:NU", "rq", "periodic", "linear", "polynomial:DEGREE", "constant", or
        several joined by +, such as "linear+rbf".  None is "se".  A kernel of `sklearn.gaussian_process.kernels` is
        read with its values, a WhiteKernel as noise; its bounds are not read (``limits``, ``fixed``).
    noise : float or array (N,), optional
        σ² at the start of training.  None: as ``start`` says.  An array has the noise variance of each row, in squared
        units of y (also with ``normalize_y``); it is not trained, and everything else is.  New observations then need
        the noise of theirs: ``predict(X, return_std=True, noisy=True, noise=...)`` (N-rows-noise).
    start : "auto", "evidence" or "scale"
        "evidence": some rows (their numbers depend on ``random_state`` and N only; at most 1000) are fitted by log p(y)
        from several lengthscales, and from short ones of the inputs that explain y alone; training starts at the best
        of these fits.  If it predicts other rows worse than noise alone does, or if training ends where everything is
        noise, more rows are fitted; models with inducing points or a PAC-Bayes bound, which have many optima, fit more
        in any case, up to 700.  This finds the inputs that matter among many.  Of a kernel that you pass, only the
        family and the ``fixed`` values count; a noise that you pass is the start.
        "scale": a kernel that you pass is the start; a name has the mean square of y as its variance and lengthscales
        of √D standard deviations.  The noise is a tenth of the mean square of y (and at least 1e-6 of the kernel's
        variance).
        "auto": "evidence" if ``kernel`` is None or names a function of the distance in lengthscales and an optimiser
        trains, otherwise "scale".
    lengthscales : "auto", "separate" or "shared"
        "shared": the lengthscales of all inputs (and periods, and variances of a linear kernel) keep the ratios of the
        start, those of standard deviations unless you pass a kernel.  With few rows and many inputs that all matter
        such a model often predicts better.  "separate": each is trained.  "auto": "separate"; of a
        `VariationalGPClassifier` whose kernel is None or a name, the one with the larger evidence.
    optimizer : "lbfgs", "adam" or None
        None does not train: the start is kept.
    max_iter : int
        Largest number of iterations of each run.
    tol : float or None
        Training stops when further iterations are expected to gain less than ``tol`` nats per datum, estimated from the
        tail of the curve (`fitting.training.Tail`) after at least 48 iterations.  With 0 or None it goes on until
        rounding allows no progress or ``max_iter`` is reached.  A checkpoint continues with a smaller ``tol``, too.
    learning_rate : float
        Step length of Adam.
    solver : "auto", "cholesky" or "iterative"
        "cholesky" factorises K + σ²I.  "iterative": a block Vecchia factor and 16 random probes estimate log|K + σ²I|
        and its derivatives, with standard errors; conjugate gradients solve for y and for predictions, to a certified
        accuracy (means to .001 standard deviations of the noise, standard deviations to 1 %, never too small); standard
        deviations at more than N/80 points come from a Cholesky factor, which stays in memory, while K can be kept.
        Training keeps the probes, and stops when every derivative lies within two standard errors or below 0.01 nats,
        or by ``tol``: the estimate is smooth and its derivatives are exact.  Where lengthscales have doubled or halved,
        it trains again with other blocks, unless the estimate's standard error is at most ``tol``/4 nats per datum.
        ``objective_`` and ``history_`` are estimates.  Then other probes give ``evidence_bounds_``.  "auto" iterates
        above 6000 rows.  K is kept if it needs at most 2 GB.
    batch_size : int, optional
        Rows of a mini-batch, for Adam.  A batch determines noise and lengthscales less well than all data: the optimum
        differs, and training uses all ``max_iter`` steps.
    n_restarts : int
        Number of further starts, log-normally distributed about the first (standard deviation 1 of the logarithm), at
        most 10,000,000.  Ctrl-C during one of them ends all, and the best so far is kept.
    fixed : str or tuple of str
        What is not trained: names in ``kernel.parameter_names``, "noise" (or another parameter of a likelihood),
        "kernel" for all of its parameters, "mean" for coefficients, which stay at least squares, and "all" for
        everything but inducing points, weights and q.  ``fixed="all"`` with the kernel, noise and mean of another model
        (of the same ``normalize_y``) trains only the rest.
    limits : dict of name to (low, high), optional
        Names that are not listed may change by a factor of 1e6 from the start that "scale" would choose.
    normalize_y : bool
        True subtracts the mean of each output and divides by its standard deviation, as scikit-learn does; kernel_,
        noise_ and objective_ then refer to the normalised targets, predictions to y.
    mean : "zero", "constant", "linear" or a gpbounds.means.LinearMean
        The mean function m of the prior, y ~ N(m(X), K + σ²I); predictions return to it far from the data.  Each
        output has its own coefficients of "constant" and "linear".  They start at least squares and are trained with
        the rest; without an optimiser they stay there.  A `LinearMean`, in the units of ``noise``, is not trained.
        Coefficients that are integrated out are a kernel: add `gpbounds.kernels.Constant` and
        `gpbounds.kernels.Linear` to yours; their variances are the prior variances of the coefficients.
    random_state : int, Generator, RandomState or None
        None: the rows of ``start`` are the same in every fit, and restarts and drawn inducing points differ.
    device : "cpu", "cuda" or "auto"
        The device of training, prediction and `log_evidence_bounds`; "auto" is "cuda" if CuPy works.  Data are checked
        and kept in host memory, and each fit copies them to the device once.  Three steps run on the host: the choice
        of inducing points and of their number, the labels of PIC's blocks, and the draws of `sample_y`.
    progress : bool
        Show a progress bar.
    checkpoint : path, optional
        Training writes to this file at least every 10 iterations; if the file exists, training continues from it.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> model = ExactGP().fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0]))
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.1)
    True
    """

    kernel: Kernel | str | None = None
    noise: Any = None
    batch_size: int | None = field(default=None, kw_only=True)

    def _member(self) -> Member:
        return member("exact")

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        outcomes = trainer.best_of("exact", start, self.n_restarts, lambda point, i: point)
        return self._again(trainer, outcomes[0], [outcome.run for outcome in outcomes])

    @kind_of_caller
    def log_marginal_likelihood(self, theta: ArrayLike | None = None, eval_gradient: bool = False) -> Any:
        """log p(y) of the rows of training, for the targets as they were fitted and at the mean ``mean_``.

        As scikit-learn's method; but the noise is the last entry of ``theta``, not a part of the kernel.  Sparse models
        have no such value: ``objective_`` of VFE is a lower bound on it, and `log_evidence_bounds` gives both bounds.

        Parameters
        ----------
        theta : array, optional
            Logarithms of the hyperparameters, in the order of ``kernel_.parameter_names``, and of the noise variance,
            unless each row has its own; None: those of the fit, at which the value is ``objective_``.
        eval_gradient : bool
            True returns the derivatives in theta, too.

        Raises
        ------
        ValueError
            for a model that iterates, of which only ``evidence_bounds_`` are known.

        >>> import numpy as np
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> model = ExactGP().fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0]))
        >>> theta = np.append(model.kernel_.log_parameters, np.log(model.noise_))
        >>> bool(abs(model.log_marginal_likelihood(theta) - model.log_marginal_likelihood()) < 1e-8)
        True
        """
        self._fitted()
        if self._iterates(len(self.X_train_)):
            raise ValueError(
                f"log_marginal_likelihood: expected a model with solver='cholesky', got one of {len(self.X_train_)} "
                "rows that iterates: evidence_bounds_ holds a lower and an upper bound"
            )
        kernel, noise = self.kernel_, self._model_noise
        if theta is not None:
            held = self._row_noise is not None  # a noise per row is no parameter
            names = kernel.parameter_names if held else (*kernel.parameter_names, "noise")
            logs = finite("theta", theta)
            if logs.shape != (len(names),):
                raise ValueError(f"theta: expected {len(names)} logarithms, of {', '.join(names)}, got {logs.shape}")
            own = logs if held else logs[:-1]
            kernel, noise = kernel.with_log_parameters(own.copy()), noise if held else float(np.exp(logs[-1]))
        problem = self._at_callers_rows(Objective(self._data(), *self._law_and_goal()))
        problem = problem.about(self._mean_of_targets())
        evaluation = problem.evaluate(kernel, noise, gradient=bool(eval_gradient))
        if evaluation.gradient is None:
            return evaluation.value
        return evaluation.value, np.append(evaluation.gradient.kernel, evaluation.gradient.likelihood)

    def log_evidence_bounds(self, X: Any = None, y: Any = None, **options: Any) -> Any:
        """Lower and upper bound on log p(y) at the trained kernel and noise.

        `gpbounds.renyi.evidence` computes them, with ``options`` as for other estimators; a model that iterates uses
        `gpbounds.iterative.evidence` with new probes, and its ``options`` are delta, width, rng, block, neighbours and
        memory.  The computation runs on the device of the model.
        """
        self._fitted()
        if X is None and self._iterates(len(self.X_train_)):
            return self._bounded_evidence(**options)
        return super().log_evidence_bounds(X, y, **options)
