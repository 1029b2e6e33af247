"""A deep GP with random Fourier features (Cutajar et al., 2017): the baseline RFEDGP of paper 001, by hand.

With F_0 = X (n, D), m frequencies in each of L layers, and for layer l

    A = F_l Ω_l,     Φ = s_l/√m·[cos A | sin A],     F_{l+1} = Φ W_l,     y ~ N(F_L, σ²),

the priors are W_l ~ N(0, 1) and, for input i of the layer, Ω_l ~ N(0, 1/ℓ_li²), entry by entry.  q is a normal law of
every entry; its means and standard deviations, s, ℓ and σ² maximise the ELBO, which a step of Adam estimates from
random rows and samples of W.  The numbers behind Ω are drawn once ("fixed randomness", as in paper 001, Sec. D.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fitting.training import Steps
from gpbounds.arrays import Float


class Layer(NamedTuple):
    """Parameters of one layer, or derivatives in them; logarithms of positive numbers."""

    frequency: Float
    """Mean of Ω (D, m)."""
    frequency_std: Float
    """log of the standard deviation of Ω (D, m)."""
    weight: Float
    """Mean of W (2m, k)."""
    weight_std: Float
    """log of the standard deviation of W (2m, k)."""
    lengthscale: Float
    """log ℓ (D,)."""
    std: Float
    """log s (1,)."""


@dataclass(frozen=True, eq=False)
class DeepGP:
    """A deep GP of given widths.

    Attributes
    ----------
    widths : sequence of int
        D, the number of GPs of each hidden layer, 1.
    frequencies : int
        m.
    fixed : list of arrays (D_l, m)
        The standard normal numbers behind Ω.
    """

    widths: Sequence[int]
    frequencies: int
    fixed: list[Float] = field(repr=False)

    @classmethod
    def drawn(cls, widths: Sequence[int], frequencies: int, rng: np.random.Generator) -> DeepGP:
        return cls(widths, frequencies, [rng.standard_normal((D, frequencies)) for D in widths[:-1]])

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of all parameters, in the order of the vector; the last is log σ²."""
        m = self.frequencies
        layers = zip(self.widths[:-1], self.widths[1:], strict=True)
        return [s for D, k in layers for s in ((D, m), (D, m), (2 * m, k), (2 * m, k), (D,), (1,))] + [(1,)]

    def start(self, rng: np.random.Generator) -> Float:
        """q(Ω) is the prior at ℓ = √D; hidden functions are draws, the last one is 0; σ² = 1/10."""
        parts: list[Float] = []
        for number, (D, k) in enumerate(zip(self.widths[:-1], self.widths[1:], strict=True)):
            shape, log = (2 * self.frequencies, k), 0.5 * math.log(D)
            weight = np.zeros(shape) if number == len(self.widths) - 2 else rng.standard_normal(shape)
            both = np.zeros((D, self.frequencies)), np.full((D, self.frequencies), -log)
            parts += [*both, weight, np.full(shape, -2.0), np.full(D, log), np.zeros(1)]
        return np.concatenate([each.ravel() for each in (*parts, np.array([math.log(0.1)]))])

    def layers(self, vector: Float) -> tuple[list[Layer], Float]:
        """The layers, as views of the vector, and log σ² (1,)."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = [part.reshape(s) for part, s in zip(np.split(vector, ends[:-1]), self.shapes, strict=True)]
        return [Layer(*parts[i : i + 6]) for i in range(0, len(parts) - 1, 6)], parts[-1]

    def normals(self, rng: np.random.Generator) -> list[Float]:
        """Standard normal numbers for one sample of all W."""
        return [rng.standard_normal((2 * self.frequencies, k)) for k in self.widths[1:]]

    def functions(
        self, layers: Sequence[Layer], X: Float, normals: Sequence[Float]
    ) -> list[tuple[Float, Float, Float]]:
        """(F_l, Φ_l, F_{l+1}) of each layer."""
        course, F = [], X
        for layer, fixed, drawn in zip(layers, self.fixed, normals, strict=True):
            A = F @ (layer.frequency + np.exp(layer.frequency_std) * fixed)
            scale = math.exp(layer.std[0]) / math.sqrt(self.frequencies)
            Phi = scale * np.concatenate([np.cos(A), np.sin(A)], axis=1)
            after = Phi @ (layer.weight + np.exp(layer.weight_std) * drawn)
            course.append((F, Phi, after))
            F = after
        return course

    def loss(self, vector: Float, X: Float, y: Float, N: int, normals: Sequence[Float]) -> tuple[float, Float]:
        """−ELBO, estimated from n rows, which stand for N, and one sample of W; and its derivatives."""
        layers, log_noise = self.layers(vector)
        slopes = np.zeros_like(vector)
        into, into_noise = self.layers(slopes)
        course, weight, noise = self.functions(layers, X, normals), N / len(y), math.exp(log_noise[0])
        error = course[-1][2][:, 0] - y
        squares = weight * float(error @ error) / noise
        value = 0.5 * (N * (math.log(2.0 * math.pi) + log_noise[0]) + squares)
        into_noise += 0.5 * (N - squares)
        bar = (weight / noise) * error[:, None]
        for number in reversed(range(len(layers))):
            layer, out, (F, Phi, _) = layers[number], into[number], course[number]
            m = self.frequencies
            spread, spread_W = np.exp(layer.frequency_std), np.exp(layer.weight_std)
            W_bar, Phi_bar = Phi.T @ bar, bar @ (layer.weight + spread_W * normals[number]).T
            out.weight[...] = W_bar
            out.weight_std[...] = W_bar * normals[number] * spread_W
            out.std[0] = np.vdot(Phi_bar, Phi)
            A_bar = Phi_bar[:, m:] * Phi[:, :m] - Phi_bar[:, :m] * Phi[:, m:]
            in_frequency = F.T @ A_bar
            out.frequency[...] = in_frequency
            out.frequency_std[...] = in_frequency * self.fixed[number] * spread
            bar = A_bar @ (layer.frequency + spread * self.fixed[number]).T
            value += _divergence(layer, out)
        return value, slopes


def _divergence(layer: Layer, out: Layer) -> float:
    """KL of q from the prior of one layer, whose derivatives are added to ``out``."""
    square = layer.weight**2 + np.exp(2.0 * layer.weight_std)
    out.weight[...] += layer.weight
    out.weight_std[...] += np.exp(2.0 * layer.weight_std) - 1.0
    value = 0.5 * float((square - 1.0 - 2.0 * layer.weight_std).sum())
    precision = np.exp(2.0 * layer.lengthscale)[:, None]
    variance = np.exp(2.0 * layer.frequency_std)
    scaled = precision * (layer.frequency**2 + variance)
    logs = 2.0 * layer.frequency_std + 2.0 * layer.lengthscale[:, None]
    out.frequency[...] += precision * layer.frequency
    out.frequency_std[...] += precision * variance - 1.0
    out.lengthscale[...] += (scaled - 1.0).sum(axis=1)
    return value + 0.5 * float((scaled - 1.0 - logs).sum())


def trained(
    model: DeepGP, X: Float, y: Float, *, epochs: int, batch: int, rate: float, samples: int, rng: np.random.Generator
) -> Float:
    """The parameters after ``epochs`` passes of Adam; a step averages over ``samples`` samples of W."""
    steps = Steps(start := model.start(rng), [(-np.inf, np.inf)] * start.size, rate)
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(len(y)), max(1, round(len(y) / batch))):
            part = X[rows], y[rows], len(y)
            steps.take(np.mean([model.loss(steps.x, *part, model.normals(rng))[1] for _ in range(samples)], axis=0))
    return steps.x


def scores(
    model: DeepGP, vector: Float, X: Float, y: Float, samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """NLPD and RMSE of the mixture of ``samples`` samples of W."""
    layers, log_noise = model.layers(vector)
    drawn = [model.functions(layers, X, model.normals(rng))[-1][2][:, 0] for _ in range(samples)]
    errors = np.array(drawn) - y
    logs = -0.5 * (errors**2 / math.exp(log_noise[0]) + math.log(2.0 * math.pi) + log_noise[0])
    best = logs.max(axis=0)
    density = best + np.log(np.exp(logs - best).mean(axis=0))
    return float(-density.mean()), float(np.sqrt(np.mean(errors.mean(axis=0) ** 2)))
