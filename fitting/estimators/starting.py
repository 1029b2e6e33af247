"""Where the training of an estimator starts, and the trainer that its arguments ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fitting.estimators.fingerprint import fingerprint, seed_of
from fitting.estimators.trainer import Trainer
from fitting.parameters import Parameters
from fitting.starts import around, default_kernel, default_noise, strides, within
from fitting.training import Session
from gpbounds.arrays import Array, Float, place
from gpbounds.devices import array_module
from gpbounds.kernels import Kernel
from gpbounds.validation import count, positive


def starting_point(estimator: Any, X: Float, Y: Float) -> Parameters:
    """Kernel and noise as ``estimator`` was given them, or from the scale of X (N, D) and Y (N, P), within its limits.

    Raises
    ------
    ValueError
        for what is no kernel, or a noise that is not positive.
    """
    kernel, noise = estimator.kernel, estimator.noise
    if kernel is None:
        kernel = default_kernel(X, Y)
        kernel = within(estimator._limits(kernel), kernel)
    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel: expected a gpbounds kernel or None, got {kernel!r}")
    if noise is None:
        noise = float(np.clip(default_noise(Y, kernel), *estimator._limits(kernel).get("noise", (0.0, np.inf))))
    return Parameters(kernel, float(positive("noise", noise)))


def trainer_of(
    estimator: Any,
    make: Callable[[Array, Array], Any],
    X: Float,
    Y: Float,
    start: Parameters,
    *,
    kind: type[Trainer] = Trainer,
    **more: Any,
) -> Trainer:
    """The trainer of the objectives that ``make`` builds, with the settings of ``estimator``, on its device."""
    xp = array_module(estimator.device)
    label = fingerprint(estimator, X, Y) if estimator.checkpoint else ""
    return kind(
        make=make,
        X=place(X, xp),
        Y=place(Y, xp),
        optimizer=estimator.optimizer,
        max_iter=count("max_iter", estimator.max_iter),
        tol=float(positive("tol", estimator.tol)),
        learning_rate=float(positive("learning_rate", estimator.learning_rate)),
        batch_size=estimator._batch(X.shape[0]),
        limits={**around(start.kernel, start.noise), **estimator._limits(start.kernel)},
        fixed=tuple(estimator.fixed),
        learn_Z=bool(getattr(estimator, "learn_inducing", False)),
        scale=strides(start.kernel, X),
        session=Session(estimator.checkpoint, label, seed_of(estimator.random_state)),
        progress=bool(estimator.progress),
        **more,
    )
