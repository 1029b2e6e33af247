"""Double-double numbers: the unevaluated sum of a high and a low part, after Dekker and Knuth.

`add`, `multiply`, `divide` and `square_root` take and return pairs with |low| ≤ 2u|high|, u = 2⁻⁵³.  Their errors are
stated for numbers so large that no product of low parts underflows (above 1e-250, or 0), and proved in N-pairs.
"""

from __future__ import annotations

from gpbounds.arrays import Array, namespace

SPLITTER = 134217729.0
"""2^27 + 1: splits a float64 into two halves of 26 bits."""

Pair = tuple[Array, Array]


def two_sum(a: Array, b: Array) -> Pair:
    """a + b as an exact pair, unless it overflows.

    >>> two_sum(1.0, 1e-20)
    (1.0, 1e-20)
    """
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> Pair:
    """a·b as an exact pair, unless a product over- or underflows.

    >>> two_product(1.0 + 2.0**-30, 1.0 + 2.0**-30) == (1.0 + 2.0**-29, 2.0**-60)
    True
    """
    value = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return value, ((a1 * b1 - value) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> Pair:
    wide = SPLITTER * a
    high = wide - (wide - a)
    return high, a - high


def times(a: Array, b: Pair) -> Pair:
    """a·(b₁ + b₂) as a pair."""
    value, low = two_product(a, b[0])
    return value, low + a * b[1]


def quick_two_sum(a: Array, b: Array) -> Pair:
    """a + b as an exact pair, for |a| ≥ |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def add(a: Pair, b: Pair) -> Pair:
    """a + b, with an error of at most 6u²(|a| + |b|) (N-pairs)."""
    total, remainder = two_sum(a[0], b[0])
    return two_sum(total, remainder + (a[1] + b[1]))


def multiply(a: Pair, b: Pair) -> Pair:
    """a·b, with an error of at most 18u²|a·b| (N-pairs)."""
    value, remainder = two_product(a[0], b[0])
    return quick_two_sum(value, remainder + (a[0] * b[1] + a[1] * b[0]))


def divide(a: Pair, d: Array) -> Pair:
    """a/d for a double d ≠ 0, with an error of at most 7u²|a/d| (N-pairs)."""
    q = a[0] / d
    value, remainder = two_product(q, d)
    return quick_two_sum(q, ((a[0] - value) - remainder + a[1]) / d)


def square_root(a: Pair) -> Pair:
    """√a for a ≥ 0, with an error of at most 12u²√a (N-pairs)."""
    xp = namespace(a[0])
    q = xp.sqrt(a[0])
    value, remainder = two_product(q, q)
    rest = (a[0] - value) - remainder + a[1]
    return quick_two_sum(q, rest / xp.where(q > 0.0, 2.0 * q, 1.0))


def reciprocal(a: Pair) -> Pair:
    """1/a for a > 0 to about 30 digits; no bound on its error is proved: whoever needs one multiplies by a."""
    xp = namespace(a[0])
    q = 1.0 / a[0]
    one = xp.ones_like(q), xp.zeros_like(q)
    rest = add(one, multiply((-q, xp.zeros_like(q)), a))
    return quick_two_sum(q, q * (rest[0] + rest[1]))


def row_sums(terms: Pair) -> Pair:
    """The sums over the last axis, of k terms by halves, with an error of at most 7⌈log₂ k⌉u² Σ|terms|, k ≤ 2⁴⁰.

    Proof.  Each of the ⌈log₂ k⌉ levels adds neighbours, which errs by 6u² times the sum of their absolute values; these
    sums exceed Σ|terms| by a relative error of 6·40u² at most.
    """
    high, low = terms
    xp = namespace(high)
    while high.shape[-1] > 1:
        half = high.shape[-1] // 2
        odd = high[..., 2 * half :], low[..., 2 * half :]
        high, low = add((high[..., :half], low[..., :half]), (high[..., half : 2 * half], low[..., half : 2 * half]))
        high, low = xp.concatenate([high, odd[0]], axis=-1), xp.concatenate([low, odd[1]], axis=-1)
    return high[..., 0], low[..., 0]
