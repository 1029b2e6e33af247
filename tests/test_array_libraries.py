"""Arrays of other libraries: results come in the caller's kind; what has no right answer is refused in a sentence."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import types
from pathlib import Path

import array_libraries
import numpy as np
import pytest
from array_libraries import LIBRARIES, strict
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import fitting
from gpbounds import kdpp, pacbayes
from gpbounds.arrays import exactly, kind_of_caller
from gpbounds.kernels import SquaredExponential

PAGE = Path(__file__).parent.parent / "docs" / "how_to" / "arrays.md"
OTHERS = [library for library in LIBRARIES if library.name != "array_api_strict"]
VALUES = np.array([0.1, 0.2, 0.4])


def library(name: str) -> array_libraries.Library:
    return next(each for each in LIBRARIES if each.name == name)


def installed(name: str) -> array_libraries.Library:
    chosen = library(name)
    if not chosen.is_installed:
        pytest.skip(f"needs {chosen.package}")
    return chosen


@kind_of_caller
def doubled(x, y=0.0, *rest):
    """Twice x + y, and which kinds came."""
    return 2.0 * (np.asarray(x) + y), {type(each) for each in (x, y, *rest)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [each.name for each in OTHERS])
def test_every_function_and_estimator_answers_in_kind(name):
    """`tests/test_array_gate.py` has the same for array_api_strict in the quick profile."""
    record = array_libraries.measured(installed(name))
    assert record["faults"] == []
    assert len(record["arrays of the caller"]) > 70


def test_the_page_shows_what_was_measured():
    records = array_libraries.stored()
    assert set(records) == {each.name for each in LIBRARIES}
    assert all(record["faults"] == [] for record in records.values())
    assert array_libraries.table(records) in PAGE.read_text(encoding="utf-8")


@given(
    x=arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=4), elements=st.floats(-1e300, 1e300)),
    kind=st.sampled_from(["float64", "float32", "int64", "bool"]),
)
def test_numbers_and_shapes_survive_both_ways(x, kind):
    with np.errstate(over="ignore"):
        array = np.clip(x, -1e18, 1e18).astype(kind)
    result, kinds = doubled(strict(array))
    assert type(result) is type(strict(array))
    assert np.asarray(result).dtype == (np.float32 if kind == "float32" else np.float64)
    np.testing.assert_array_equal(np.asarray(result), 2.0 * (array + 0.0))
    assert kinds == {np.ndarray, float}


def test_arrays_decide_and_numbers_do_not():
    own = type(strict(VALUES))
    assert isinstance(doubled(VALUES, strict(VALUES))[0], own)
    assert isinstance(doubled(VALUES.tolist(), y=strict(VALUES))[0], own)
    assert isinstance(doubled(strict(VALUES), VALUES)[0], own)
    assert isinstance(doubled(VALUES, strict(np.array(0.5)))[0], np.ndarray)
    assert isinstance(pacbayes.kl_inverse(0.25, strict(np.array(0.1))), float)
    assert isinstance(pacbayes.bound(0.1, strict(VALUES), 50, delta=0.1).value, np.ndarray)  # in a record


def test_wrong_calls_fail_as_without_the_decorator():
    with pytest.raises(TypeError, match="kl\\(\\) missing 2 required"):
        pacbayes.kl()
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3"):
        pacbayes.kl(0.5, 0.5, strict(VALUES))
    with pytest.raises(TypeError, match="multiple values"):
        pacbayes.kl(strict(VALUES), q=strict(VALUES))


def test_signatures_docstrings_and_pickles_survive():
    assert list(inspect.signature(pacbayes.kl_inverse).parameters)[:2] == ["q", "divergence"]
    assert "kl" in inspect.getdoc(pacbayes.kl_inverse)
    assert pickle.loads(pickle.dumps(pacbayes.kl_inverse)) is pacbayes.kl_inverse
    assert "noisy" in inspect.signature(fitting.ExactGP.predict).parameters


def test_a_model_answers_each_caller_in_kind():
    X, y = np.linspace(0.0, 1.0, 6)[:, None], np.arange(6.0)
    model = fitting.ExactGP(SquaredExponential(), 0.5, optimizer=None).fit(strict(X), strict(y))
    mean, std = model.predict(strict(X), return_std=True)
    own, numpy = type(strict(X)), model.predict(X)
    assert {type(mean), type(std), type(numpy)} == {own, np.ndarray}
    assert np.asarray(mean).tobytes() == numpy.tobytes()
    assert isinstance(model.X_train_, np.ndarray)
    assert model.score(strict(X), strict(y)) == model.score(X, y)
    fresh = fitting.RenyiGP(n_inducing=3, kernel=SquaredExponential(), optimizer=None).fit(strict(X), y.tolist())
    assert isinstance(fresh.log_predictive_density(X, strict(y)), own)


def test_words_stay_words():
    X, words = np.linspace(0.0, 1.0, 6)[:, None], ["no", "yes"] * 3
    model = fitting.VariationalGPClassifier(n_inducing=2, kernel=SquaredExponential(), optimizer=None).fit(X, words)
    assert set(model.predict(strict(X))) <= {"no", "yes"}
    assert isinstance(model.predict_proba(strict(X)), type(strict(X)))


def test_two_libraries_in_one_call_are_refused():
    sentence = (
        r"^divergence: expected an array of the library of q, array_api_strict.Array, or of NumPy, got dask.Array: "
    )
    with pytest.raises(ValueError, match=sentence):
        pacbayes.kl_inverse(strict(VALUES), installed("Dask").make(VALUES))


class Made:
    """An array of a library of this file."""

    ndim = 1
    dtype = "bfloat16"
    requires_grad = False

    def __init__(self, values, dtype="float64", library=None):
        self.values, self.dtype, self.library = np.asarray(values), dtype, library

    def __array_namespace__(self, api_version=None):
        return self.library

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad or self.dtype == "bfloat16":
            raise RuntimeError("it requires a gradient, or NumPy does not know it.\nMore lines")
        return self.values


def library_of_one_type(rounded):
    """A library without devices, whose arrays hold numbers of the type ``rounded``."""
    module = types.ModuleType("rounding")
    module.float32 = "float32"
    module.asarray = lambda x, dtype=None: Made(
        x.values if isinstance(x, Made) else x.astype(rounded), dtype or rounded, module
    )
    return module


def test_doubles_that_would_be_rounded_are_refused():
    """As JAX does by default: an upper end would not be one."""
    single = Made(VALUES, "float32", library_of_one_type("float32"))
    with pytest.raises(ValueError, match=r"^divergence: expected an array of a library that holds doubles, .* float32"):
        pacbayes.kl_inverse(0.25, single)
    double = pacbayes.kl_inverse(0.25, Made(VALUES, "float64", library_of_one_type("float64")))
    np.testing.assert_array_equal(double.values, pacbayes.kl_inverse(0.25, VALUES))


def test_numbers_of_eight_or_sixteen_bits_are_widened():
    narrow = Made(VALUES, "bfloat16", library_of_one_type("float64"))
    np.testing.assert_array_equal(exactly("X", narrow), VALUES)


def test_a_gradient_is_refused_and_not_dropped():
    wanted = Made(VALUES, "bfloat16", library_of_one_type("float64"))
    wanted.requires_grad = True
    with pytest.raises(
        ValueError, match=r"^divergence: expected an array that NumPy reads, got Made \(it requires"
    ) as error:
        pacbayes.kl_inverse(0.5, wanted)
    assert "\n" not in str(error.value)


class Foreign:
    """An array of another library in host memory, which NumPy reads by DLPack only."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_dlpack_alone_is_read():
    X, y = np.linspace(0.0, 1.0, 6)[:, None], np.arange(6.0)
    np.testing.assert_array_equal(exactly("X", Foreign(X)), X)
    assert kdpp.greedy(Foreign(np.diag(y)), 2).tolist() == [5, 4]
    model = fitting.ExactGP(SquaredExponential(), 0.5, optimizer=None)
    assert (model.fit(Foreign(X), Foreign(y)).predict(Foreign(X)) == model.fit(X, y).predict(X)).all()


def test_arrays_on_another_device_are_refused():
    import array_api_strict

    elsewhere = array_api_strict.asarray(VALUES, device=array_api_strict.Device("device1"))
    with pytest.raises(ValueError, match=r"^divergence: expected an array that NumPy reads, got Array \(.*device1"):
        pacbayes.kl_inverse(0.5, elsewhere)


def test_no_library_is_imported():
    program = """
import sys
import array_api_strict, numpy
from gpbounds import pacbayes
values = array_api_strict.asarray(numpy.array([0.1, 0.2]))
assert isinstance(pacbayes.kl_inverse(0.25, values), type(values))
print(sorted({"torch", "jax", "dask", "cupy", "pandas"} & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_tensors_without_an_answer_are_refused_in_one_sentence():
    torch = pytest.importorskip("torch")
    of = {
        "a gradient": torch.tensor([0.1], requires_grad=True),
        "a gradient in 16 bits": torch.tensor([0.1], requires_grad=True, dtype=torch.bfloat16),
        "no numbers": torch.ones(1, device="meta"),
        "zeros left out": torch.tensor([0.1]).to_sparse(),
        "complex": torch.tensor([0.1j]),
    }
    for kind, tensor in of.items():
        for call in (lambda x: pacbayes.kl_inverse(0.5, x), lambda x: pacbayes.bound(0.5, 1.0, x, delta=0.1)):
            with pytest.raises(ValueError, match=r"^(divergence|N): expected [^\n]*$"):
                call(tensor)
        assert kind
    narrow = torch.tensor([0.1, 0.2], dtype=torch.bfloat16)
    np.testing.assert_array_equal(exactly("X", narrow), narrow.to(torch.float64).numpy())


def test_compiled_functions_and_derivatives_of_jax_are_refused_in_one_sentence():
    jax = pytest.importorskip("jax")
    values = library("JAX").make(VALUES)
    for change in (jax.jit, lambda f: jax.grad(lambda x: f(x).sum()), jax.vmap):
        with pytest.raises(ValueError, match=r"^divergence: expected [^\n]*compiled functions"):
            change(lambda x: pacbayes.kl_inverse(0.5, x))(values)
