"""Laws of sums of independent coins, and of the sums without one coin, from products of positive polynomials.

A coin that shows heads with probability p is the polynomial (1 − p) + p·t.  A product tree multiplies them in pairs.
On the way down each node receives the product of all coins outside of it; a node of n coins needs only its n + 1
coefficients M − n … M.  N min(N, M) multiplications each way.
"""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float

LEAVES = 32
"""Number of coins up to which all nodes of one size are processed together."""


def leave_one_out(tails: Float, heads: Float, M: int) -> tuple[Float, Float, float, float]:
    """P₋ᵢ(M), P₋ᵢ(M − 1) for every coin i, and P(M), P(M − 1): the numbers of heads without coin i, and with all.

    Sums of positive numbers only, so the relative error is a few roundings.

    Parameters
    ----------
    tails, heads : array (n,)
        Probabilities 1 − p_i and p_i, each to full relative precision.
    M : int
        1 ≤ M.

    >>> half = np.full(3, 0.5)
    >>> leave_one_out(half, half, 1)
    (array([0.5, 0.5, 0.5]), array([0.25, 0.25, 0.25]), 0.375, 0.125)
    """
    n = tails.size
    blocks = -(-n // LEAVES)
    leaves = np.zeros((blocks * LEAVES, 2))
    leaves[:, 0] = 1.0  # a coin that never shows heads changes nothing
    leaves[:n, 0], leaves[:n, 1] = tails, heads
    levels = [leaves]
    while levels[-1].shape[0] > blocks:
        levels.append(_multiplied(levels[-1][0::2], levels[-1][1::2]))
    outside = np.zeros((blocks, LEAVES + 1))
    whole = _outside_blocks(levels[-1], M, outside)
    for level in reversed(levels[:-1]):
        outside = _halved(outside, level)
    return outside[:n, 1], outside[:n, 0], _at(whole, M), _at(whole, M - 1)


def _multiplied(left: Float, right: Float) -> Float:
    """Row by row the product of two polynomials of equal length."""
    nodes, size = left.shape
    product = np.zeros((nodes, 2 * size - 1))
    for j in range(size):
        product[:, j : j + size] += left[:, j : j + 1] * right
    return product


def _halved(outside: Float, level: Float) -> Float:
    """From coefficients M − n … M outside each node those M − n/2 … M outside its two halves ``level``."""
    size = level.shape[1]
    result = np.zeros(level.shape)
    for child in (0, 1):
        sibling = level[1 - child :: 2]
        for j in range(size):
            result[child::2] += sibling[:, j : j + 1] * outside[:, size - 1 - j : 2 * size - 1 - j]
    return result


def _outside_blocks(blocks: Float, M: int, outside: Float) -> Float:
    """Fill in the coefficients M − LEAVES … M outside each block; return the product of all blocks up to t^M."""
    products: dict[tuple[int, int], Float] = {}

    def product(first: int, last: int) -> Float:
        """Of blocks first … last − 1."""
        if last - first == 1:
            polynomial = blocks[first, : M + 1]
        else:
            middle = (first + last) // 2
            polynomial = np.convolve(product(first, middle), product(middle, last))[: M + 1]
        products[first, last] = polynomial
        return polynomial

    def descend(first: int, last: int, window: Float, lowest: int) -> None:
        """``window``: the coefficients from t^lowest to t^M of the product outside blocks first … last − 1."""
        if last - first == 1:
            outside[first, LEAVES + 1 - window.size :] = window
            return
        middle = (first + last) // 2
        for begin, end, sibling in ((first, middle, (middle, last)), (middle, last, (first, middle))):
            start = max(M - (end - begin) * LEAVES, 0)
            descend(begin, end, _windowed(window, lowest, products[sibling], start, M), start)

    whole = product(0, blocks.shape[0])
    alone = np.zeros(M + 1)
    alone[0] = 1.0
    lowest = max(M - blocks.shape[0] * LEAVES, 0)
    descend(0, blocks.shape[0], alone[lowest:], lowest)
    return whole


def _windowed(window: Float, lowest: int, factor: Float, start: int, M: int) -> Float:
    """The coefficients from t^start to t^M of the product of ``factor`` and a polynomial known from t^lowest on."""
    if start - lowest == factor.size - 1:
        return np.convolve(window, factor, "valid")
    return np.convolve(window, factor)[start - lowest : M + 1 - lowest]


def _at(polynomial: Float, power: int) -> float:
    return float(polynomial[power]) if power < polynomial.size else 0.0
