"""Likelihoods, losses, Monte Carlo, numbers of the PAC-Bayes theorems."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from words import spelled

from gpbounds import likelihoods, losses, montecarlo, pacbayes

M, V = np.array([-3.0, -0.5, 0.0, 0.7, 4.0]), np.array([1e-9, 0.1, 1.0, 3.0, 50.0])
FORMS = ("sharpest", "printed")


def likelihood_table() -> dict[str, tuple[Any, Any]]:
    """Likelihoods and targets that they have."""
    return {
        "gaussian": (likelihoods.Gaussian(0.3), np.array([-1.0, 0.0, 0.2, 2.0, 9.0])),
        "student_t": (likelihoods.StudentT(4.0, 0.5), np.array([-1.0, 0.0, 0.2, 2.0, 9.0])),
        "probit": (likelihoods.Bernoulli("probit"), np.array([0, 1, 1, 0, 1])),
        "logit": (likelihoods.Bernoulli("logit"), np.array([0, 1, 1, 0, 1])),
        "poisson": (likelihoods.Poisson("exp"), np.array([0, 1, 3, 2, 40])),
        "softplus": (likelihoods.Poisson("softplus"), np.array([0, 1, 3, 2, 40])),
    }


def loss_table() -> dict[str, Any]:
    """Losses by name."""
    return {
        "band": losses.Band(0.5),
        "squared": losses.Squared(0.5),
        "exponential": losses.Exponential(0.5),
        "relative": losses.Relative(0.4),
        "interval": losses.Interval(-0.3, 0.5),
        "share": losses.Interval(-0.3, 0.5, True),
    }


def calls() -> dict[str, Callable[[], Any]]:
    """All calls about single observations and single numbers."""
    return _likelihoods() | _losses() | _montecarlo() | _pacbayes()


def _likelihoods() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    options = {"gradient": True, "parameters": True}
    for name, (model, y) in likelihood_table().items():
        asked: dict[str, Callable[[], Any]] = {
            "log_density": partial(model.log_density, y, M),
            "density": partial(model.density, y, M),
            "derivatives": partial(model.derivatives, y, M),
            "parameter_derivatives": partial(model.parameter_derivatives, y, M),
            "density_derivatives": partial(model.density_derivatives, y, M),
            "derivative_range": lambda model=model, y=y: [
                (found, str(found))
                for form, repaired in (("sharpest", False), ("printed", False), ("printed", True))
                for found in [model.derivative_range(y[2], form, repaired=repaired)]
            ],
            "log_expected_density": partial(model.log_expected_density, y, M, V, **options),
            "log_expected_power": lambda model=model, y=y: [
                model.log_expected_power(y, M, V, power, **options) for power in (0.3, 1.0)
            ],
            "expected_log_density": partial(model.expected_log_density, y, M, V, **options),
            "predictive_mean": partial(model.predictive_mean, M, V),
            "predictive_cdf": partial(model.predictive_cdf, y, M, V),
            "predictive_quantile": partial(model.predictive_quantile, 0.9, M[1:4], V[1:4]),
            "parameters": lambda model=model: [
                model.parameter_names,
                model.log_parameters,
                repr(model.with_log_parameters(model.log_parameters + 0.1)),
            ],
            "record": lambda model=model: [model.to_dict(), repr(likelihoods.from_dict(model.to_dict()))],
            "refused y": partial(model.log_density, [0.5, np.nan], 0.0),
            "refused v": partial(model.expected_log_density, y, M, -V),
        }
        found |= {f"likelihoods/{name}/{part}": call for part, call in asked.items()}
    found["likelihoods/refused link"] = partial(likelihoods.Bernoulli, "other")
    found["likelihoods/refused scale"] = partial(likelihoods.StudentT, 4.0, -1.0)
    found["likelihoods/refused record"] = partial(likelihoods.from_dict, {"name": "other"})
    return found


def _losses() -> dict[str, Callable[[], Any]]:
    y = np.array([-1.0, 0.1, 0.2, 2.0, 9.0])
    found: dict[str, Callable[[], Any]] = {}
    for name, loss in loss_table().items():
        found[f"losses/{name}"] = lambda loss=loss: {
            "value": loss.value(y, M),
            "expectation": loss.expectation(y, M, V, gradient=True),
            "slopes": loss.slopes(y, M, V),
            "allowance": loss.allowance(y, M, V, 1e-12, 1e-13),
            "record": loss.to_dict(),
            "again": repr(losses.from_dict(loss.to_dict())),
        }
    return found | {
        "losses/outside_probability": partial(losses.outside_probability, -1.0, [0.0, 1.0, 40.0], 0.3, 1.5),
        "losses/refused": partial(losses.Band, -1.0),
        "losses/refused interval": partial(losses.Interval, 1.0, 0.0),
        "losses/refused record": partial(losses.from_dict, {"name": "other"}),
    }


def _montecarlo() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for name, (model, y) in likelihood_table().items():
        one, m, v = y[2], 0.5, 1.3
        asked: dict[str, Callable[[], Any]] = {
            "bias": lambda a=(model, one, m, v): [
                montecarlo.bias(*a, [1, 10, 1000], how, gradient=True) for how in ("exact", "expansion")
            ],
            "expected_objective": partial(montecarlo.expected_objective, model, one, m, v, [1, 10, np.inf]),
            "expected_gradients": partial(montecarlo.expected_gradients, model, one, m, v, 4),
            "exact_gradient": partial(montecarlo.exact_gradient, model, one, m, v),
            **{
                f"sampled_gradient/{how}": partial(montecarlo.sampled_gradient, model, one, m, v, 5, 0, how)
                for how in ("reparametrised", "curvature", "other")
            },
            **{
                f"cover/{how}": partial(montecarlo.cover, model, one, m, v, how)
                for how in ("best", "widened", "shifted", "other")
            },
            "sample_product": partial(montecarlo.sample_product, model, one, m, v, 200, 0),
        }
        at: dict[str, Any] = {"m": m, "v": v}
        for word in ("float", "sharp"):
            for rule in ("improved", "chernoff", "printed"):
                asked[f"sample_size/{rule}/{word}"] = partial(_sizes, model, one, rule, word, at)
            asked[f"sample_size/zeta/{word}"] = partial(_sizes, model, one, "improved", word, {"zeta": 0.01})
        found |= {f"montecarlo/{name}/{part}": call for part, call in asked.items()}
    for word in ("float", "sharp"):
        found[f"montecarlo/failure_share/{word}"] = partial(
            spelled, montecarlo.failure_share, [1, 10], delta=0.05, rigor=word
        )
        found[f"montecarlo/lemma6/{word}"] = partial(
            spelled, montecarlo.lemma6, 0.0, 1.0, [0.1, 0.5], relative_error=0.1, delta=0.05, rigor=word
        )
    found["montecarlo/product_gradient"] = partial(montecarlo.product_gradient, M, 0.5, 2.0)
    found["montecarlo/refused"] = partial(montecarlo.lemma6, 1.0, 0.0, 0.5, relative_error=0.1, delta=0.05)
    return found


def _sizes(model: Any, y: Any, rule: str, word: str, at: dict[str, Any]) -> Any:
    options: dict[str, Any] = {"n": 1000, "delta": 0.05, "step": lambda t: 1 / t, "iteration": [1, 10], **at}
    found = spelled(montecarlo.sample_size, model, y, rule=rule, rigor=word, **options)
    return {"record": found, "text": str(found)}


def _pacbayes() -> dict[str, Callable[[], Any]]:
    q, d = np.array([0.0, 1e-9, 0.02, 0.5, 0.99]), np.array([1e-12, 0.05, 0.3, 3.0, 300.0])
    risk, kl = np.array([0.0, 0.093, 0.7]), np.array([0.0, 42.0, 400.0])
    options: dict[str, Any] = {"delta": 0.01, "log_prior_penalty": 14.2}
    found: dict[str, Callable[[], Any]] = {
        "kl": partial(pacbayes.kl, q, [0.1, 0.1, 0.05, 0.5 + 1e-9, 1.0]),
        "mixture_kl": partial(pacbayes.mixture_kl, [3.0, 3.5], np.log(2.0)),
        "log_penalty": lambda: [pacbayes.log_penalty([30, 404, 10**9], form=form, **options) for form in FORMS],
        "bayes_factor": partial(pacbayes.bayes_factor, 0.6, [0.0, 1.2, 9.0]),
        "bayes_risk_bound": lambda: [
            pacbayes.bayes_risk_bound(0.1),
            pacbayes.bayes_risk_bound(0.1, epsilon=0.6, least_std=1.2),
        ],
        "batch_risk_bound": lambda: [
            pacbayes.batch_risk_bound([0.0, 0.1], 1000, delta=0.01, side=side, form=form)
            for side in ("upper", "lower")
            for form in FORMS
        ],
        "batch_bound": partial(pacbayes.batch_bound, 0.1, 1000, 42.0, 40_000, delta=0.005, batch_delta=0.005),
        "bound/gradient": partial(pacbayes.bound, risk, kl, 404, gradient=True, **options),
        "kl_inverse/gradient": partial(pacbayes.kl_inverse, q[1:], d[1:], gradient=True),
        "xi/float": partial(pacbayes.xi, [1, 2, 100, 10**6]),
        "grid_penalty/float": partial(pacbayes.grid_penalty, [1201, 7], 2),
        "xi/balls": partial(spelled, pacbayes.xi, [1, 2, 100, 10**6], rigor="balls"),
        "grid_penalty/balls": partial(spelled, pacbayes.grid_penalty, [1201, 7], 2, rigor="balls"),
        "refused/risk": partial(pacbayes.bound, 1.5, 1.0, 404, **options),
        "refused/kl": partial(pacbayes.bound, 0.5, -1.0, 404, **options),
        "refused/delta": partial(pacbayes.bound, 0.5, 1.0, 404, delta=0.0),
        "refused/form": partial(pacbayes.bound, 0.5, 1.0, 404, form="other", **options),
        "refused/kl_inverse": partial(pacbayes.kl_inverse, 0.5, -1.0),
    }
    for side in ("upper", "lower"):
        for complement in (False, True):
            asked = (pacbayes.kl_inverse, q, d, side, complement)
            found[f"kl_inverse/{side}/{complement}"] = partial(*asked)
            found[f"kl_inverse/{side}/{complement}/balls"] = partial(spelled, *asked, rigor="balls")
        for relaxation in ("kl", "pinsker", "other"):
            for form in FORMS:
                more = options | {"side": side, "relaxation": relaxation, "form": form}
                found[f"bound/{side}/{relaxation}/{form}"] = partial(pacbayes.bound, risk, kl, 404, **more)
                found[f"bound/{side}/{relaxation}/{form}/balls"] = partial(
                    spelled, pacbayes.bound, risk, kl, 404, rigor="balls", **more
                )
    return {f"pacbayes/{name}": call for name, call in found.items()}
