"""The stand-in for CuPy: refusals, results, and seeded faults that appear on a device only."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg.blas import dgemm

from gpbounds import whitening
from gpbounds.arrays import namespace
from gpbounds.kernels import Matern, SquaredExponential, stationary

pytestmark = pytest.mark.standin
STANDIN = Path(__file__).parent / "standin"


# Names and arguments


def test_a_name_fails_loudly_and_says_whether_cupy_has_it(cupy) -> None:
    import cupyx
    import cupyx.scipy.linalg
    import cupyx.scipy.special

    a = cupy.zeros(3)
    for owner, name in (
        (cupy, "histogram"),
        (cupy.linalg, "pinv"),
        (cupy.cuda, "Stream"),
        (cupyx, "scatter_add"),
        (cupyx.scipy.linalg, "lu_factor"),
        (cupyx.scipy.special, "logsumexp"),
        (a, "searchsorted"),
        (cupy.add, "reduceat"),
    ):
        with pytest.raises(NotImplementedError, match="not learnt"):
            getattr(owner, name)
        with pytest.raises(AttributeError):
            owner.such_a_name_is_nowhere  # noqa: B018


def test_the_stand_in_offers_nothing_that_cupy_lacks(cupy) -> None:
    import cupyx
    import cupyx.scipy.linalg

    surface = json.loads((STANDIN / "surface.json").read_text(encoding="utf-8"))
    assert int(surface["version"].partition(".")[0]) >= 14
    for owner in (cupy, cupy.linalg, cupy.cuda, cupyx, cupyx.scipy.linalg, cupy._functions):
        name = "cupy" if owner is cupy._functions else owner.__name__
        own = [f for f in vars(owner).values() if inspect.isfunction(f) and f.__module__ == owner.__name__]
        for function in own:
            if function.__name__.startswith("_") or function is cupy._functions.function:
                continue
            assert function.__name__ in surface[name]
            ours, real = (
                [(p.name, p.kind, p.default is p.empty) for p in s.parameters.values()]
                for s in (inspect.signature(function), cupy._surface.signature(name, function.__name__))
            )
            assert ours == real or function.__name__ == "matmul"  # whose arguments are checked when it is called
    inner = {"_host", "__slots__", "__weakref__", "__getattr__"}
    assert set(dir(cupy.ndarray)) - set(dir(object)) - inner <= set(surface["cupy.ndarray"])
    assert set(cupy._functions.LEARNT) <= set(surface["cupy"])


def test_every_entry_of_the_surface_has_a_line_and_a_meaning(cupy) -> None:
    text = (STANDIN / "surface.json").read_text(encoding="utf-8")
    surface = {owner: names for owner, names in json.loads(text).items() if owner != "version"}
    assert len(text.splitlines()) == 3 + sum(2 + len(names) for names in surface.values())
    for owner, names in surface.items():
        for name, kind in names.items():
            if kind.startswith("("):
                cupy._surface.signature(owner, name)
            elif kind.startswith("ufunc "):
                assert len({(len(takes), len(gives)) for takes, gives in cupy._surface.loops(owner, name)}) == 1
            else:
                assert kind in ("class", "module", "special", "value")


# Refusals

REFUSALS = {
    "np.asarray": (lambda c, a: np.asarray(a), TypeError, "Implicit conversion"),
    "np.array of a list": (lambda c, a: np.array([a, a]), TypeError, "Implicit conversion"),
    "into an array of the host": (lambda c, a: np.zeros(3).__setitem__(slice(None), a), TypeError, "Implicit"),
    "a host array on the right": (lambda c, a: a + np.ones(3), TypeError, "Unsupported type"),
    "a host array on the left": (lambda c, a: np.ones(3) * a, TypeError, "Unsupported type"),
    "a host array in place": (lambda c, a: a.__iadd__(np.ones(3)), TypeError, "Unsupported type"),
    "a host array compared": (lambda c, a: a < np.ones(3), TypeError, "Unsupported type"),
    "a list": (lambda c, a: a * [1.0, 2.0, 3.0], TypeError, "Unsupported type"),
    "None": (lambda c, a: a + None, TypeError, "Unsupported type"),
    "a host array in a product": (lambda c, a: np.eye(3) @ a, TypeError, "Unsupported type"),
    "a host array in a sum": (lambda c, a: c.einsum("i,i->", a, np.ones(3)), TypeError, "Unsupported type"),
    "host arrays side by side": (lambda c, a: c.concatenate([a, np.ones(3)]), TypeError, "Unsupported type"),
    "a list in a function": (lambda c, a: c.sum([1.0, 2.0]), TypeError, "takes a cupy.ndarray"),
    "host and device in one list": (lambda c, a: c.array([a[0], 1.0]), TypeError, "Implicit conversion"),
    "a host output": (lambda c, a: np.add(a, 1.0, out=np.zeros(3)), TypeError, "Unsupported type"),
    "where= of a ufunc": (lambda c, a: c.maximum(a, 0.0, where=a > 0.0), TypeError, r"Wrong arguments \['where'\]"),
    "where= of a sum": (lambda c, a: c.sum(a, where=a > 0.0), TypeError, "unexpected keyword argument 'where'"),
    "initial= of a method": (lambda c, a: a.max(initial=0.0), TypeError, "unexpected keyword argument 'initial'"),
    "too many operands": (lambda c, a: c.exp(a, a, a), TypeError, "Wrong number of arguments"),
    "a loop that is not there": (lambda c, a: a & a, TypeError, "Wrong type"),
    "an output that loses": (lambda c, a: c.add(a, 0.5, out=c.zeros(3, int)), TypeError, "Cannot cast"),
    "an output of another shape": (lambda c, a: c.exp(a, out=c.zeros(2)), ValueError, "mismatch"),
    "integers beyond a type": (lambda c, a: c.zeros(1, np.uint8) + 300, OverflowError, "out of bounds"),
    "objects": (lambda c, a: c.zeros(2, object), ValueError, "Unsupported dtype object"),
    "text": (lambda c, a: c.asarray(["a"]), ValueError, "Unsupported dtype"),
    "extended precision": (lambda c, a: a.astype(np.longdouble), ValueError, "Unsupported dtype"),
    "a device scalar as an end": (lambda c, a: a[: a.argmax()], TypeError, "slice indices must be integers"),
    "a device scalar as a count": (lambda c, a: range(a.argmax()), TypeError, "cannot be interpreted as an integer"),
    "a device scalar as a size": (lambda c, a: c.zeros(a.argmax()), TypeError, "takes no cupy.ndarray"),
    "a host array written": (lambda c, a: a.__setitem__(slice(None), np.ones(3)), ValueError, "non-scalar numpy"),
    "a list written": (lambda c, a: a.__setitem__(slice(None), [1.0, 2.0, 3.0]), TypeError, "Unsupported type"),
    "repeated indices": (lambda c, a: a.__setitem__([0, 0], c.ones(2)), AssertionError, "repeated indices"),
    "repeated pairs": (
        lambda c, a: c.zeros((2, 2)).__setitem__((c.asarray([1, 1]), c.asarray([0, 0])), 1.0),
        AssertionError,
        "repeated indices",
    ),
    "a product into its operand": (lambda c, a: c.matmul(c.eye(3), a, out=a), AssertionError, "memory of an operand"),
    "a product into a host array": (lambda c, a: c.matmul(a, a, out=np.zeros(())), TypeError, "Unsupported type"),
    "truth of many": (lambda c, a: bool(a), ValueError, "ambiguous"),
    "a host matrix in linalg": (lambda c, a: c.linalg.cholesky(np.eye(2)), np.linalg.LinAlgError, "only supports"),
    "a list in linalg": (lambda c, a: c.linalg.eigh([[1.0]]), np.linalg.LinAlgError, "only supports"),
    "a special function of SciPy alone": (lambda c, a: scipy.special.kve(1.3, a), TypeError, "NotImplemented"),
    "host linear algebra": (lambda c, a: scipy.linalg.solve_triangular(c.eye(3), a), TypeError, "Implicit"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(cupy, case: str) -> None:
    attempt, error, words = REFUSALS[case]
    a = cupy.asarray([1.0, -2.0, 3.0])
    with pytest.raises(error, match=words):
        attempt(cupy, a)
    assert a.tolist() == [1.0, -2.0, 3.0]


def test_triangular_solves_refuse_arrays_of_the_host(cupy) -> None:
    from cupyx.scipy.linalg import solve_triangular

    for a, b in ((np.eye(2), cupy.ones(2)), (cupy.eye(2), np.ones(2))):
        with pytest.raises(np.linalg.LinAlgError, match="only supports"):
            solve_triangular(a, b)
    with pytest.raises(TypeError, match="lover"):
        solve_triangular(cupy.eye(2), cupy.ones(2), lover=True)


# What it computes

arrays = st.tuples(st.sampled_from("?bBhiqfd"), st.integers(0, 4), st.integers(0, 2**32 - 1))


def drawn(char: str, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2 if char == "?" else 50, (3, columns)).astype(char)


@given(left=arrays, right=st.one_of(arrays, st.booleans(), st.integers(0, 40), st.floats(-9.0, 9.0)))
def test_arithmetic_is_numpys_and_its_results_lie_in_cs_order(cupy, left, right) -> None:
    host_arguments = drawn(*left), (drawn(right[0], left[1], right[2]) if isinstance(right, tuple) else right)
    device_arguments = [cupy.asarray(x) if isinstance(x, np.ndarray) else x for x in host_arguments]
    for name in ("add", "multiply", "maximum", "less", "true_divide"):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(*host_arguments)
        result = getattr(cupy, name)(*device_arguments)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result.get(), expected)
        turned = getattr(cupy, name)(*(x.T if isinstance(x, cupy.ndarray) else x for x in device_arguments))
        assert turned.flags.c_contiguous
        assert turned.shape == expected.T.shape


def test_results_stay_on_the_device_and_share_memory_where_cupys_do(cupy) -> None:
    a = cupy.arange(12.0).reshape(3, 4)
    for scalar in (a.sum(), a.max(), a[1, 2], a[0].argmin(), cupy.vdot(a, a), next(iter(a[0])), (a > 1.0).all()):
        assert type(scalar) is cupy.ndarray
        assert scalar.shape == ()
    element, row, turned, chosen, diagonal = a[1, 2], a[1], a.T, a[[1]], cupy.diagonal(a)
    a[1] = -1.0
    assert float(element) == -1.0
    assert row.tolist() == turned[:, 1].tolist() == [-1.0] * 4
    assert chosen.tolist() == [[4.0, 5.0, 6.0, 7.0]]
    diagonal[...] = 9.0
    assert a[2, 2] == 9.0
    b = a
    a @= cupy.eye(4)  # a new array, as CuPy has no product in place
    assert b is not a
    for other in (copy.deepcopy(a), pickle.loads(pickle.dumps(a)), a.astype(float)):
        assert (other == a).all()
        assert not np.shares_memory(other._host, a._host)
    assert cupy.asarray(a) is a
    assert a.astype(float, copy=False) is a
    assert cupy.where(a == 9.0)[1].tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("dtype", [float, np.float32, np.int64, np.uint8, bool])
def test_fresh_memory_holds_nothing_of_use(cupy, dtype) -> None:
    for made in (cupy.empty((2, 3), dtype), cupy.empty_like(cupy.zeros((2, 3), dtype))):
        assert made.dtype == dtype
        assert bool((made != made).all() if made.dtype.kind == "f" else (made != 0).all())


@pytest.mark.parametrize("transposed", [0, 1, "N", "T"])
@pytest.mark.parametrize("columns", [None, 0, 3])
def test_triangular_solves(cupy, transposed, columns) -> None:
    from cupyx.scipy.linalg import solve_triangular

    rng = np.random.default_rng(5)
    A, b = rng.standard_normal((4, 4)) + 4.0 * np.eye(4), rng.standard_normal(4 if columns is None else (4, columns))
    for lower in (True, False):
        solution = solve_triangular(cupy.asarray(A), cupy.asarray(b), trans=transposed, lower=lower)
        T = np.tril(A) if lower else np.triu(A)
        np.testing.assert_allclose((T.T if transposed in (1, "T") else T) @ solution.get(), b, atol=1e-13)
        assert solution.flags.f_contiguous
    assert not np.isfinite(solve_triangular(cupy.zeros((2, 2)), cupy.ones(2)).get()).all()  # no error is raised


def test_functions_of_numpy_go_where_cupys_go(cupy) -> None:
    a = cupy.asarray([[4.0, 1.0], [1.0, 3.0]])
    for result, expected in (
        (np.exp(a), np.exp(a.get())),
        (np.sum(a, axis=0), [5.0, 4.0]),
        (scipy.special.ndtr(a), scipy.special.ndtr(a.get())),
    ):
        assert type(result) is cupy.ndarray
        np.testing.assert_array_equal(result.get(), expected)
    assert np.ndim(a) == 2
    np.testing.assert_allclose(np.linalg.eigvalsh(a).get(), np.linalg.eigvalsh(a.get()), rtol=1e-15)


# Failures of linear algebra


@pytest.mark.failed_factor
def test_a_cholesky_that_fails_is_silent_unless_asked(cupy, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupyx

    rng = np.random.default_rng(3)
    A = rng.standard_normal((6, 6))
    good, bad = A @ A.T + np.eye(6), A @ A.T - 3.0 * np.eye(6)
    large = np.pad(np.eye(400), (0, 6))
    large[400:, 400:] = bad
    np.testing.assert_allclose(cupy.linalg.cholesky(cupy.asarray(good)).get(), np.linalg.cholesky(good), rtol=1e-12)
    for failed, finite in (("finite", True), ("nan", False)):
        monkeypatch.setattr(cupy.linalg, "_FAILED", failed)
        L = cupy.linalg.cholesky(cupy.asarray(bad)).get()
        assert np.isfinite(L).all() == finite
        assert not np.allclose(L @ L.T, bad)
        assert (np.triu(L, 1) == 0.0).all()
        for indefinite in (bad, large, bad.astype("f")):
            with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match="potrf"):
                cupy.linalg.cholesky(cupy.asarray(indefinite))


@pytest.mark.failed_factor
def test_nan_goes_through_linear_algebra_in_silence(cupy) -> None:
    import cupyx

    A = cupy.eye(3)
    A[1, 0] = A[0, 1] = cupy.nan
    with cupyx.errstate(linalg="raise"):
        assert np.isnan(cupy.linalg.cholesky(A).get()).any()
        assert np.isnan(cupy.linalg.eigvalsh(A).get()).all()
        values, vectors = cupy.linalg.eigh(A)
        assert values.shape == (3,)
        assert np.isnan(vectors.get()).all()
        with pytest.raises(np.linalg.LinAlgError):  # the pivot before NaN is negative
            cupy.linalg.cholesky(cupy.asarray([[-1.0, 0.0], [0.0, np.nan]]))


@pytest.mark.failed_factor
def test_how_failures_are_treated_belongs_to_a_thread(cupy) -> None:
    import cupyx

    shapes = []
    with cupyx.errstate(linalg="raise"):
        with cupyx.errstate(linalg="ignore"):
            cupy.linalg.cholesky(-cupy.eye(2))
        thread = threading.Thread(target=lambda: shapes.append(cupy.linalg.cholesky(-cupy.eye(2)).shape))
        thread.start()
        thread.join()
        with pytest.raises(np.linalg.LinAlgError):
            cupy.linalg.cholesky(-cupy.eye(2))
    assert shapes == [(2, 2)]
    cupy.linalg.cholesky(-cupy.eye(2))
    with pytest.raises(NotImplementedError), cupyx.errstate(divide="raise"):
        pass


# Kernels in C


def test_the_formula_that_a_device_would_run_is_run(cupy) -> None:
    rng = np.random.default_rng(2)
    X, Z, lengths = rng.standard_normal((7, 3)), rng.standard_normal((4, 3)), np.array([0.5, 1.0, 3.0])
    weights = 1.0 / lengths**2
    for kernel in (SquaredExponential(1.7), Matern(1.5, 1.7)):
        for order in ("C", "F"):
            computed = stationary.fused(kernel.formula, cupy.asarray(X, order=order), cupy.asarray(Z), weights, 1.7)
            np.testing.assert_allclose(computed.get(), kernel(X / lengths, Z / lengths), rtol=1e-12)
    wrong = stationary.fused("variance * s", cupy.asarray(X), cupy.asarray(Z), weights, 1.7).get()
    np.testing.assert_allclose(wrong, 1.7 * ((X[:, None] - Z) ** 2 * weights).sum(axis=2), rtol=1e-13)


def test_kernels_broadcast_and_index(cupy) -> None:
    scaled = cupy.ElementwiseKernel("T x, T y, float64 c", "T z", "z = c * x + y", "scaled")
    x, y = cupy.arange(3.0), cupy.arange(2.0)[:, None]
    np.testing.assert_array_equal(scaled(x, y, 2.0).get(), 2.0 * np.arange(3.0) + np.arange(2.0)[:, None])
    assert scaled(x.astype("f"), 1, 2).dtype == np.float32
    turned = cupy.ElementwiseKernel("raw T x, int64 n", "T z", "z = x[n - 1 - i]", "turned")
    assert turned(x, 3, size=3).tolist() == [2.0, 1.0, 0.0]
    into = cupy.zeros((3, 2)).T[0]
    assert turned(x, 3, into) is into
    assert into.tolist() == [2.0, 1.0, 0.0]


def test_kernels_check_their_arguments_as_cupys_do(cupy) -> None:
    kernel = cupy.ElementwiseKernel("raw T x, int64 n", "T z", "z = x[i] * n", "scaled")
    x, out = cupy.arange(3.0), cupy.empty(3)
    for arguments, error, words in (
        ((x.astype("f"), 2, out), TypeError, "Type is mismatched"),
        ((x, x, out), TypeError, "Type is mismatched"),
        ((x,), TypeError, "Wrong number of arguments"),
        ((np.ones(3), 2, out), TypeError, "Unsupported type"),
        ((1.0, 2, out), TypeError, "raw"),
        ((x, 2, 1.0), TypeError, "Output arguments"),
        ((x, 2), ValueError, "Loop size is undecided"),
    ):
        with pytest.raises(error, match=words):
            kernel(*arguments)
    with pytest.raises(ValueError, match="only if all arrays are raw"):
        kernel(x, 2, out, size=3)
    with pytest.raises(RuntimeError, match="does not compile"):
        cupy.ElementwiseKernel("T x", "T z", "z = nowhere(x)")(x)


def test_kernels_may_call_functions_of_their_own(cupy) -> None:
    square = "__device__ double squared(double x) { return x * x; }"
    kernel = cupy.ElementwiseKernel("T x", "T z, T w", "z = squared(x); w = -x", "squares", preamble=square)
    z, w = kernel(cupy.arange(3.0))
    assert (z.tolist(), w.tolist()) == ([0.0, 1.0, 4.0], [0.0, -1.0, -2.0])


def test_raw_arrays_are_no_pointers(cupy) -> None:
    with pytest.raises(NotImplementedError, match="'raw float64 x' with an index behind it only"):
        cupy.ElementwiseKernel("raw float64 x", "float64 y", "y = *(x + i)")
    pointed = cupy.ElementwiseKernel("raw float64 x", "float64 y", "const double *at = &x[i]; y = at[0]")
    assert pointed(cupy.arange(3.0), cupy.empty(3)).get().tolist() == [0.0, 1.0, 2.0]


def test_kernels_know_the_functions_of_cuda(cupy) -> None:
    x = np.concatenate([np.linspace(-5.0, 60.0, 2001), [0.0, 1e8, 1e300]])
    erfcx = cupy.ElementwiseKernel("float64 x", "float64 y", "y = erfcx(x)")
    np.testing.assert_allclose(erfcx(cupy.asarray(x)).get(), scipy.special.erfcx(x), rtol=2e-15)


def test_reductions(cupy, counts) -> None:
    x = cupy.asarray(np.arange(6.0).reshape(2, 3))
    kernel = cupy.ReductionKernel("T x, T y, T top", "T z", "x * y", "a + b", "z = top - a", "0", "below")
    counts.clear()
    np.testing.assert_array_equal(kernel(x, x, 50.0, axis=1).get(), [45.0, 0.0])
    assert counts["launch"] == 1
    np.testing.assert_array_equal(kernel(x.T, 2.0, 0.0, axis=-1).get(), -2.0 * x.get().sum(axis=0))
    assert float(kernel(x, x, 0.0)) == -55.0
    into = cupy.empty(2)
    assert kernel(x, cupy.ones(3), 0.0, into, axis=1) is into
    assert into.tolist() == [-3.0, -12.0]
    for arguments, error, words in (
        ((x, 1.0), TypeError, "Wrong number"),
        ((x, x.astype("f"), 1.0), TypeError, "Type is mismatched"),
        ((np.ones(3), x, 1.0), TypeError, "Unsupported type"),
        ((x, x, 1.0, cupy.empty(3)), ValueError, "Out shape"),
    ):
        with pytest.raises(error, match=words):
            kernel(*arguments, axis=1)
    with pytest.raises(RuntimeError, match="does not compile"):  # the result cannot see the entries
        cupy.ReductionKernel("T x", "T z", "x", "a + b", "z = a + x", "0")(x)


@pytest.mark.parametrize("orders", ["CCC", "FCF", "CFC", "FFF"])
def test_products_that_are_added(cupy, counts, orders) -> None:
    from cupy import cublas

    rng = np.random.default_rng(4)
    A, B, C = rng.standard_normal((3, 4)), rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    a, b, c = (cupy.asarray(x, order=order) for x, order in zip((A, B, C), orders, strict=True))
    counts.clear()
    assert cublas.gemm("N", "N", a, b, out=c, alpha=2.0, beta=-1.0) is c
    assert (counts["launch"], counts["gemm"], counts["flops"]) == (1, 1, 2 * 3 * 4 * 2)
    np.testing.assert_allclose(c.get(), 2.0 * A @ B - C, rtol=1e-13)
    np.testing.assert_allclose(cublas.gemm("T", "T", b, a).get(), (A @ B).T, rtol=1e-13)
    total = cupy.asarray(np.full((4, 4), 7.0), order=orders[0])
    cublas.syrk("T", a, out=total, beta=1.0)
    np.testing.assert_allclose(total.get(), np.where(np.tri(4, k=-1) > 0, 7.0, A.T @ A + 7.0), rtol=1e-13)
    fresh = cupy.empty((4, 4))
    cublas.syrk("T", a, out=fresh, lower=True)  # beta = 0 does not read it
    np.testing.assert_allclose(np.tril(fresh.get()), np.tril(A.T @ A), rtol=1e-13)
    assert np.isnan(fresh.get()[np.triu_indices(4, 1)]).all()
    with pytest.raises(AssertionError, match="memory of an operand"):
        cublas.gemm("N", "N", a.T, a, out=a.T)
    with pytest.raises(AssertionError):
        cublas.gemm("N", "N", a, a)
    counts.clear()
    cublas.gemm("N", "N", a[:, ::2], b[::2])
    assert counts["launch"] == 3  # both are copied first


def test_a_solve_in_the_memory_of_its_right_hand_side(cupy) -> None:
    from cupyx.scipy.linalg import solve_triangular

    A, rows = np.array([[2.0, 0.0], [1.0, 1.0]]), cupy.asarray([[2.0, 3.0], [4.0, 2.0]])
    solved = solve_triangular(cupy.asarray(A), rows.T, lower=True, overwrite_b=True)
    np.testing.assert_array_equal(rows.get(), [[1.0, 2.0], [2.0, 0.0]])
    assert np.shares_memory(solved._host, rows._host)
    before = rows.get()
    solve_triangular(cupy.asarray(A), rows, lower=True, overwrite_b=True)  # C's order: CuPy makes a copy
    np.testing.assert_array_equal(rows.get(), before)


# Counters


def test_counters(cupy, counts) -> None:
    x = cupy.asarray(np.arange(6.0).reshape(2, 3))
    assert counts == {"h2d": 1, "h2d bytes": 48}
    y = x.T.reshape(6)[1:4] * 2.0  # a view and a copy by reshape, one launch for the product
    assert counts["launch"] == 1
    assert counts["d2h"] == 0
    assert float(y.sum()) == 2.0 * (3.0 + 1.0 + 4.0)
    assert (counts["launch"], counts["d2h"], counts["d2h bytes"]) == (2, 1, 8)
    x @ x.T
    assert (counts["gemm"], counts["flops"]) == (1, 2 * 2 * 2 * 3)
    cupy.flatnonzero(x > 1.0)
    x[x > 1.0] = 0.0
    assert counts["sync"] == 2
    assert counts is cupy._impl.stats


def test_whitening_reads_little_of_what_it_computes(cupy, counts) -> None:
    X, y = np.random.default_rng(0).standard_normal((200, 2)), np.ones(200)
    whitening.whiten(SquaredExponential(), cupy.asarray(X), cupy.asarray(X[:5]), cupy.asarray(y), chunk=50)
    assert counts["trsm"] == 4  # one for each chunk
    assert counts["d2h bytes"] < 8 * 200 * 5  # less than V


# Seeded faults


def implicit_conversion(diagonal, V, readings=None):
    return diagonal - (np.asarray(V) ** 2).sum(axis=0)


def mixed_operation(diagonal, V, readings=None):
    return diagonal - np.ones(V.shape[0]) @ (V * V)


def masked_ufunc(diagonal, V, readings=None):
    residual = diagonal - (V * V).sum(axis=0)
    return namespace(V).maximum(residual, 0.0, out=residual, where=residual < 0.0)


def host_blas(diagonal, V, readings=None):
    return diagonal - dgemm(1.0, V, V, trans_a=True).diagonal()


def product_into_its_operand(diagonal, V, readings=None):
    gram = V @ V.T
    namespace(V).matmul(gram, gram, out=gram)  # NumPy makes a copy first
    return diagonal - (V * V).sum(axis=0) + 0.0 * gram[0, 0]


def unfilled_buffer(diagonal, V, readings=None):
    residual = namespace(V).empty_like(diagonal)
    residual[:-1] = (diagonal - (V * V).sum(axis=0))[:-1]
    return residual


def whitened(put) -> list[np.ndarray]:
    """What the library computes where ``put`` puts the data, on the host."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(0.0, 5.0, (30, 1)), rng.standard_normal(30)
    white = whitening.whiten(SquaredExponential(), put(X), put(X[:4]), put(y), chunk=16)
    return [np.asarray(a.get() if hasattr(a, "get") else a) for a in (white.gram, white.projected, white.residual)]


def agree(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(np.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(
    "fault", [implicit_conversion, mixed_operation, masked_ufunc, host_blas, product_into_its_operand]
)
def test_a_fault_that_a_cpu_never_shows_stops_the_run(cupy, monkeypatch: pytest.MonkeyPatch, fault) -> None:
    expected = whitened(np.asarray)
    assert agree(whitened(cupy.asarray), expected)
    monkeypatch.setattr(whitening, "residual_diagonal", fault)
    assert agree(whitened(np.asarray), expected)
    with pytest.raises((TypeError, AssertionError), match=r"Implicit|Unsupported|Wrong arguments|memory of an operand"):
        whitened(cupy.asarray)


def test_a_buffer_that_is_not_filled_gives_a_wrong_number(cupy, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = whitened(np.asarray)
    assert agree(whitened(cupy.asarray), expected)
    monkeypatch.setattr(whitening, "residual_diagonal", unfilled_buffer)
    assert not agree(whitened(cupy.asarray), expected)


def test_a_kernel_with_a_wrong_formula_gives_a_wrong_number(cupy, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = whitened(np.asarray)
    assert agree(whitened(cupy.asarray), expected)
    monkeypatch.setattr(SquaredExponential, "formula", "variance * exp(-0.45 * s)")
    assert agree(whitened(np.asarray), expected)
    assert not agree(whitened(cupy.asarray), expected)


# The run itself


def test_a_run_that_skips_its_gpu_tests_can_be_made_to_fail(tmp_path) -> None:
    (tmp_path / "cupy.py").write_text("raise ImportError('none here')", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--gpu", "tests/test_whitening.py"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, cwd=STANDIN.parents[1], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "--gpu: expected every gpu test to run, 0 passed, 1 skipped" in ran.stdout
