"""Estimators: scikit-learn's protocol, and the mathematics that a fitted model must obey."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fitting import ExactGP, RenyiGP, SparseGP

quick = {"max_iter": 30, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        ExactGP(**quick),
        RenyiGP(0.5, n_inducing=8, **quick),
        *(SparseGP(method, n_inducing=8, **quick) for method in ("vfe", "pep", "pic")),
    ]
)
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)
