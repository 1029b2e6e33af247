"""``cupy.ElementwiseKernel``: its very source, compiled by the host's C compiler and run on the host."""

import ctypes
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cupy._counts import stats
from cupy._ndarray import SCALARS, device, ndarray

C_TYPES = {"float64": "double", "float32": "float", "int64": "long long", "int32": "int", "bool": "bool"}
SOURCE = """
#include <stdbool.h>
#include <tgmath.h>
{typedefs}
void run(long long size, {pointers}) {{
  for (long long i = 0; i < size; ++i) {{
    {reads}
    {operation};
    {writes}
  }}
}}
"""


@dataclass(frozen=True)
class Parameter:
    """"raw T x": one letter is a type that the arrays decide; a raw array is indexed by the source itself."""

    name: str
    type: str
    raw: bool

    @classmethod
    def parsed(cls, text: str) -> "Parameter":
        *raw, kind, name = text.split()
        if raw not in ([], ["raw"]):
            raise ValueError(f"Unknown keyword {raw}")
        return cls(name, kind, bool(raw))


class ElementwiseKernel:
    """One operation for every index i, on arrays that broadcast."""

    def __init__(self, in_params: str, out_params: str, operation: str, name: str = "kernel", **unlearnt: Any) -> None:
        if unlearnt:
            raise NotImplementedError(f"the stand-in's ElementwiseKernel has not learnt {sorted(unlearnt)}")
        self.in_params, self.out_params = (
            [Parameter.parsed(p) for p in text.split(",")] for text in (in_params, out_params)
        )
        self.operation, self.name = operation, name

    def __call__(self, *args: Any, size: int | None = None) -> Any:
        parameters = self.in_params + self.out_params
        if len(args) not in (len(self.in_params), len(parameters)):
            raise TypeError(f"Wrong number of arguments for {self.name!r}: {len(args)}")
        if any(not isinstance(a, (ndarray, *SCALARS)) for a in args):
            raise TypeError(f"Unsupported type in {[type(a) for a in args]}")
        if not all(isinstance(a, ndarray) for a in args[len(self.in_params) :]):
            raise TypeError("Output arguments type must be cupy.ndarray")
        given = list(zip(parameters, args, strict=False))
        types = _types(given)
        looped = [a.shape for p, a in given if isinstance(a, ndarray) and not p.raw]
        if bool(looped) == (size is not None):
            raise ValueError("Loop size is undecided." if size is None else "'size' goes with raw arrays only.")
        shape = np.broadcast_shapes(*looped) if size is None else (size,)
        outs = args[len(self.in_params) :]
        if not outs:
            outs = tuple(device(np.empty(shape, types[p.type])) for p in self.out_params)
        if any(o.shape != shape for p, o in zip(self.out_params, outs, strict=True) if not p.raw):
            raise ValueError("Out shape is mismatched")
        buffers = []
        for p, value in zip(parameters, (*args[: len(self.in_params)], *outs), strict=True):
            memory = np.asarray(value._host if isinstance(value, ndarray) else value, types[p.type])
            buffers.append(np.array(memory if p.raw else np.broadcast_to(memory, shape), order="C"))
        stats["launch"] += 1
        routine = _compiled(self._source(types))
        routine(ctypes.c_longlong(int(np.prod(shape))), *(ctypes.c_void_p(b.ctypes.data) for b in buffers))
        for out, filled in zip(outs, buffers[len(self.in_params) :], strict=True):
            out._host[...] = filled
        return outs[0] if len(outs) == 1 else outs

    def _source(self, types: dict[str, np.dtype]) -> str:
        def stored(p: Parameter) -> str:
            return p.name if p.raw else f"{p.name}_"

        def written(p: Parameter) -> str:
            return C_TYPES[types[p.type].name]

        pointers = [f"const {written(p)} *{stored(p)}" for p in self.in_params]
        pointers += [f"{written(p)} *{stored(p)}" for p in self.out_params]
        reads = [f"const {written(p)} {p.name} = {p.name}_[i];" for p in self.in_params if not p.raw]
        reads += [f"{written(p)} {p.name} = {p.name}_[i];" for p in self.out_params if not p.raw]
        return SOURCE.format(
            typedefs="\n".join(f"typedef {C_TYPES[t.name]} {name};" for name, t in types.items() if len(name) == 1),
            pointers=", ".join(pointers),
            reads=" ".join(reads),
            operation=self.operation,
            writes=" ".join(f"{p.name}_[i] = {p.name};" for p in self.out_params if not p.raw),
        )


def _types(given: list[tuple[Parameter, Any]]) -> dict[str, np.dtype]:
    """Each type's dtype; arrays must have exactly it, scalars are converted."""
    types = {p.type: np.dtype(p.type) for p, _ in given if len(p.type) > 1}
    for p, value in reversed(given):
        if isinstance(value, ndarray) and types.setdefault(p.type, value.dtype) != value.dtype:
            raise TypeError(f"Type is mismatched. {p.name} {value.dtype} {types[p.type]} {p.type}")
        if p.raw and not isinstance(value, ndarray):
            raise TypeError(f"{p.name}: expected a cupy.ndarray for a raw argument, got {type(value)}")
    return types


@cache
def _compiled(source: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.c")
        path.write_text(source, encoding="utf-8")
        library = path.with_suffix(".so")
        command = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", library, path, "-lm"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise RuntimeError(f"the kernel does not compile:\n{built.stderr}\n{source}")
        routine = ctypes.CDLL(str(library)).run
    routine.restype = None
    return routine
