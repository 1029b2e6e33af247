"""The kernels that the stand-in runs as C compile as CUDA, too, where its compiler is installed; no device needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpbounds.likelihoods import Bernoulli, Poisson, StudentT
from gpbounds.losses import Band, Exponential, Interval, Relative, Sign, Squared

pytestmark = pytest.mark.standin

ROOT = Path(__file__).parents[1]

RAW = """
template <class T> struct Raw {  // CuPy's raw arrays are objects with an index
  T *memory;
  __device__ T &operator[](long long i) const { return memory[i]; }
};
"""


def as_cuda(source: str, number: int, known: str) -> str:
    """A kernel in a namespace of its own, with CuPy's objects for raw arrays, without ``known`` functions of CUDA."""
    typedefs, _, body = source.replace(known, "").partition("#define __device__ static")
    types = "\n".join(line for line in typedefs.splitlines() if line.startswith("typedef"))
    head = re.search(r"void run\((.*)\) \{", body)
    assert head is not None
    parameters = re.sub(r"((?:const )?(?:long long|\w+)) \*(\w*[^_\W])(?=,|$)", r"Raw<\1> \2", head.group(1))
    body = body.replace(head.group(0), f'extern "C" __global__ void run{number}({parameters}) {{')
    loop = "for (long long i = 0; i < size; ++i) {"
    assert body.count(loop) == 1
    one = "long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < size) {"
    return f"namespace n{number} {{\n{types}\n{body.replace(loop, one)}\n}}\n"


def test_every_kernel_compiles_as_cuda(cupy, monkeypatch, tmp_path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("needs the compiler of CUDA, nvcc")
    sources: dict[str, None] = {}
    compiled = cupy._kernel._compiled

    def recorded(source: str) -> Any:
        sources[source] = None
        return compiled(source)

    monkeypatch.setattr(cupy._kernel, "_compiled", recorded)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import bench_launches

    Z = cupy.asarray(np.random.default_rng(1).standard_normal((bench_launches.M, 2)))
    for evaluate in bench_launches.models(*map(cupy.asarray, bench_launches.problem(3)), Z).values():
        evaluate()
    bench_launches.steps()
    one = cupy.ones(3)
    for model in (Bernoulli("probit"), Bernoulli("logit"), Poisson(), Poisson("softplus"), StudentT(3.0, 1.0)):
        for mean in (model.log_expected_density, model.expected_log_density):
            mean(one, one, one)
        model.log_expected_power(one, one, one, 0.5)
    for loss in (Band(0.5), Squared(0.5), Exponential(0.5), Relative(0.4), Interval(-0.3, 0.5), Sign()):
        loss.expectation(one, one, one)
    kernels = [source for source in sources if "__device__" in source]  # reductions are CuPy's own templates
    assert len(kernels) >= 25
    text = RAW + "".join(as_cuda(source, number, cupy._kernel.CUDA) for number, source in enumerate(kernels))
    assert text.count("Raw<") >= 20
    (tmp_path / "kernels.cu").write_text(text, encoding="utf-8")
    command = [compiler, "-ptx", "-o", str(tmp_path / "kernels.ptx"), str(tmp_path / "kernels.cu")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
