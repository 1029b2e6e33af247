"""Biased Monte Carlo for direct loss minimisation: sample sizes, its exact bias, and exact product sampling."""

from gpbounds.montecarlo.gradients import (
    Gradients,
    exact_gradient,
    expected_gradients,
    product_gradient,
    sampled_gradient,
)
from gpbounds.montecarlo.objective import bias, expected_objective
from gpbounds.montecarlo.product import Envelope, ProductSample, cover, sample_product
from gpbounds.montecarlo.sizes import SampleSize, failure_share, lemma6, sample_size

__all__ = [
    "Envelope",
    "Gradients",
    "ProductSample",
    "SampleSize",
    "bias",
    "cover",
    "exact_gradient",
    "expected_gradients",
    "expected_objective",
    "failure_share",
    "lemma6",
    "product_gradient",
    "sample_product",
    "sample_size",
    "sampled_gradient",
]
