"""``cupy.ElementwiseKernel`` and ``ReductionKernel``: their C source, compiled by the host's compiler and run there."""

import ctypes
import math
import os
import re
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
# CUDA's functions that C does not have.  erfcx: exp(x²) with the rounding of x², or its continued fraction.
CUDA = """
static double erfcx(double x) {
  if (x < 20.0) return exp(x * x) * (1.0 + fma(x, x, -x * x)) * erfc(x);
  double rest = 0.0;
  for (int k = 40; k > 0; --k) rest = 0.5 * k / (x + rest);
  return 0.5641895835477563 / (x + rest);
}
"""
SOURCE = """
#include <stdbool.h>
#include <tgmath.h>
{typedefs}
#define __device__ static
{cuda}
{preamble}
void run(long long size, {pointers}) {{
  for (long long i = 0; i < size; ++i) {{
    {reads}
    {operation};
    {writes}
  }}
}}
"""
REDUCTION = """
#include <stdbool.h>
#include <tgmath.h>
{typedefs}
static inline {accumulator} joined({accumulator} a, {accumulator} b) {{ return {joined}; }}
void run(long long size, long long length, {pointers}) {{
  {numbers}
  for (long long o = 0; o < size; ++o) {{
    {accumulator} a = {identity};
    for (long long i = o * length; i < (o + 1) * length; ++i) {{
      {reads}
      a = joined(a, {mapped});
    }}
    {written} {result};
    {finished};
    {result}_[o] = {result};
  }}
}}
"""
Types = dict[str, np.dtype]


@dataclass(frozen=True)
class Parameter:
    """A parameter such as ``raw T x`` or ``int64 n``: arrays determine one-letter types, the source indexes raw."""

    text: str

    @property
    def type(self) -> str:
        return self.text.split()[-2]

    @property
    def name(self) -> str:
        return self.text.split()[-1]

    @property
    def raw(self) -> bool:
        return self.text.split()[0] == "raw"

    @property
    def c_type(self) -> str:
        return self.type if len(self.type) == 1 else C_TYPES[self.type]

    @property
    def pointer(self) -> str:
        return self.name if self.raw else f"{self.name}_"


class ElementwiseKernel:
    """One operation for every index i, on arrays that broadcast."""

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        *,
        preamble: str = "",
        **unlearnt: Any,
    ) -> None:
        if unlearnt:
            raise NotImplementedError(f"the stand-in's ElementwiseKernel has not learnt {sorted(unlearnt)}")
        self.ins, self.outs = ([Parameter(p) for p in text.split(",")] for text in (in_params, out_params))
        self.params, self.operation, self.name = self.ins + self.outs, operation, name
        for p in self.params:  # CuPy's raw arrays are objects that are indexed, no pointers
            hidden = re.search(rf"\b(?:double|int|long)\b[^;]*\b{p.name}\b *=", operation)  # by a variable of this name
            if p.raw and not hidden and re.search(rf"\b{p.name}\b(?! *\[)", operation):
                raise NotImplementedError(f"{name}: the stand-in takes {p.text!r} with an index behind it only")
        self.preamble = preamble

    def __call__(self, *args: Any, size: int | None = None) -> Any:
        inputs, outs = args[: len(self.ins)], args[len(self.ins) :]
        if len(inputs) < len(self.ins) or len(outs) not in (0, len(self.outs)):
            raise TypeError(f"Wrong number of arguments for {self.name!r}: {len(args)}")
        if not all(isinstance(a, (ndarray, *SCALARS)) for a in args):
            raise TypeError(f"Unsupported type in {[type(a) for a in args]}")
        if not all(isinstance(a, ndarray) for a in outs):
            raise TypeError("Output arguments type must be cupy.ndarray")
        types = _types(self.params, args)
        shape = self._shape(args, size)
        outs = outs or tuple(device(np.empty(shape, types[p.type])) for p in self.outs)
        if any(o.shape != shape for p, o in zip(self.outs, outs, strict=True) if not p.raw):
            raise ValueError("Out shape is mismatched")
        buffers = []
        for p, value in zip(self.params, (*inputs, *outs), strict=True):
            memory = np.asarray(value._host if isinstance(value, ndarray) else value, types[p.type])
            buffers.append(np.array(memory if p.raw else np.broadcast_to(memory, shape), order="C"))
        stats["launch"] += 1
        run = _compiled(self._source(types))
        run(ctypes.c_longlong(math.prod(shape)), *(ctypes.c_void_p(b.ctypes.data) for b in buffers))
        for out, filled in zip(outs, buffers[len(self.ins) :], strict=True):
            out._host[...] = filled
        return outs[0] if len(outs) == 1 else outs

    def _shape(self, args: tuple[Any, ...], size: int | None) -> tuple[int, ...]:
        """The shape of the loop: that of the arrays that are not raw, or ``size``."""
        shapes = [a.shape for p, a in zip(self.params, args, strict=False) if isinstance(a, ndarray) and not p.raw]
        if size is None and not shapes:
            raise ValueError("Loop size is undecided.")
        if size is not None and shapes:
            raise ValueError("'size' can be used only if all arrays are raw.")
        return np.broadcast_shapes(*shapes) if size is None else (size,)

    def _source(self, types: Types) -> str:
        looped = [p for p in self.params if not p.raw]
        return SOURCE.format(
            typedefs=_typedefs(types),
            pointers=", ".join(f"{'const ' * (p in self.ins)}{p.c_type} *{p.pointer}" for p in self.params),
            reads=" ".join(f"{'const ' * (p in self.ins)}{p.c_type} {p.name} = {p.pointer}[i];" for p in looped),
            preamble=self.preamble,
            cuda=CUDA,
            operation=self.operation,
            writes=" ".join(f"{p.pointer}[i] = {p.name};" for p in self.outs if not p.raw),
        )


class ReductionKernel:
    """One reduction along an axis, or of all entries, of arrays that broadcast."""

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: str,
        name: str = "reduce_kernel",
        **unlearnt: Any,
    ) -> None:
        self.ins, (self.out,) = [Parameter(p) for p in in_params.split(",")], [Parameter(out_params)]
        if unlearnt or any(p.raw for p in self.ins):
            raise NotImplementedError(f"the stand-in's ReductionKernel has not learnt raw and {sorted(unlearnt)}")
        self.map, self.reduce, self.post, self.identity, self.name = (
            map_expr,
            reduce_expr,
            post_map_expr,
            identity,
            name,
        )

    def __call__(self, *args: Any, out: Any = None, axis: int | None = None, keepdims: bool = False) -> ndarray:
        if len(args) not in (len(self.ins), len(self.ins) + 1) or (out is not None and len(args) > len(self.ins)):
            raise TypeError(f"Wrong number of arguments for {self.name}")
        inputs, out = args[: len(self.ins)], args[-1] if len(args) > len(self.ins) else out
        if keepdims:
            raise NotImplementedError("the stand-in's ReductionKernel has not learnt keepdims")
        if not all(isinstance(a, (ndarray, *SCALARS)) for a in inputs) or not isinstance(out, (ndarray, type(None))):
            raise TypeError(f"Unsupported type in {[type(a) for a in args]}")
        types = _types([*self.ins, self.out], (*inputs, *([] if out is None else [out])))
        shape = np.broadcast_shapes(*(a.shape for a in inputs if isinstance(a, ndarray)))
        last = [i for i in range(len(shape)) if axis is not None and i != axis % len(shape)]
        kept = tuple(shape[i] for i in last)
        made = device(np.empty(kept, types[self.out.type])) if out is None else out
        if made.shape != kept:
            raise ValueError("Out shape is mismatched")
        order = [*last, *(i for i in range(len(shape)) if i not in last)]
        buffers = []
        for p, value in zip(self.ins, inputs, strict=True):
            if isinstance(value, ndarray):
                buffers.append(np.array(np.broadcast_to(value._host, shape).transpose(order), order="C"))
            else:
                buffers.append(np.asarray(value, types[p.type]))
        stats["launch"] += 1
        filled, size = np.empty(kept, types[self.out.type]), math.prod(kept)
        sizes = ctypes.c_longlong(size), ctypes.c_longlong(math.prod(shape) // size if size else 0)
        arrays = [p for p, value in zip(self.ins, inputs, strict=True) if isinstance(value, ndarray)]
        _compiled(self._source(types, arrays))(*sizes, *(ctypes.c_void_p(b.ctypes.data) for b in (*buffers, filled)))
        made._host[...] = filled
        return made

    def _source(self, types: Types, arrays: list[Parameter]) -> str:
        def read(p: Parameter) -> str:
            return f"const {p.c_type} {p.name} = {p.pointer}[{'i' if p in arrays else '0'}];"

        return REDUCTION.format(
            typedefs=_typedefs(types),
            accumulator=self.out.c_type,
            joined=self.reduce,
            identity=self.identity,
            pointers=", ".join(
                [*(f"const {p.c_type} *{p.pointer}" for p in self.ins), f"{self.out.c_type} *{self.out.pointer}"]
            ),
            numbers=" ".join(read(p) for p in self.ins if p not in arrays),  # CuPy's result may use them, too
            reads=" ".join(map(read, arrays)),
            mapped=self.map,
            written=self.out.c_type,
            result=self.out.name,
            finished=self.post,
        )


def _typedefs(types: Types) -> str:
    return "\n".join(f"typedef {C_TYPES[t.name]} {letter};" for letter, t in types.items() if len(letter) == 1)


def _types(params: list[Parameter], args: tuple[Any, ...]) -> Types:
    """The dtype of each type: arrays must have exactly this dtype, scalars are converted."""
    types = {p.type: np.dtype(p.type) for p in params if len(p.type) > 1}
    for p, value in reversed(list(zip(params, args, strict=False))):
        if isinstance(value, ndarray) and types.setdefault(p.type, value.dtype) != value.dtype:
            raise TypeError(f"Type is mismatched. {p.text}: {value.dtype}, expected {types[p.type]}")
        if p.raw and not isinstance(value, ndarray):
            raise TypeError(f"{p.text}: expected a cupy.ndarray, got {type(value)}")
    return types


@cache
def _compiled(source: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        path.write_text(source, encoding="utf-8")
        compiler = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-Werror=implicit-function-declaration"]
        built = subprocess.run([*compiler, "-o", library, path, "-lm"], capture_output=True, text=True, check=False)
        if built.returncode:
            raise RuntimeError(f"the kernel does not compile:\n{built.stderr}\n{source}")
        run = ctypes.CDLL(str(library)).run
    run.restype = None
    return run
