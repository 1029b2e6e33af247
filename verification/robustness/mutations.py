"""Damaged and hostile versions of a file: of its bytes, of JSON, of tables, of arrays and of archives of arrays."""

from __future__ import annotations

import copy
import io
import json
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Mutation = Callable[[bytes, np.random.Generator], bytes]

NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 1e308, -1e308, 5e-324, 1e-300, -0.0, 0.5, 1e16, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30),
    *(10**400, True, False, None, "", "1", "nan", [], {}, [[]], [1.0], {"a": 1}, "x" * 300, "\u0661\u0662", "\x00"),
)
"""What takes the place of a number."""

TOKENS = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1" * 5000, b"null", b"true", b"[", b"]", b"{", b"}", b'"', b","),
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x1c", b"\x0c", b"\r", b"\n", b";", b"\t", b"1_0"),
    *("١".encode(), b"0x10", b"1e", b"--1", b"1.2.3", b'"1', b"inf", b"-nan", b" ", b"e", b"9" * 400),
)
"""What is inserted into text."""


def some_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """One to eight bytes changed."""
    if not data:
        return b"\x00"
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        i = int(rng.integers(len(changed)))
        changed[i] = int(rng.integers(256)) if rng.random() < 0.5 else changed[i] ^ (1 << int(rng.integers(8)))
    return bytes(changed)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """The first bytes only, or the last ones."""
    n = int(rng.integers(len(data) + 1))
    return data[:n] if rng.random() < 0.8 else data[n:]


def doubled(data: bytes, rng: np.random.Generator) -> bytes:
    """A piece twice, missing, or in another place."""
    i, j = sorted(int(k) for k in rng.integers(len(data) + 1, size=2))
    kind = rng.integers(4)
    if kind == 0:
        return data[:j] + data[i:j] + data[j:]
    if kind == 1:
        return data[:i] + data[j:]
    if kind == 2:
        return data + data
    k = int(rng.integers(len(data) + 1))
    return data[:k] + data[i:j] + data[k:]


def token(data: bytes, rng: np.random.Generator) -> bytes:
    """A token inserted, or in the place of some bytes."""
    i = int(rng.integers(len(data) + 1))
    return data[:i] + TOKENS[int(rng.integers(len(TOKENS)))] + data[i + int(rng.integers(3)) :]


BYTES: tuple[Mutation, ...] = (some_bytes, cut, doubled, token)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    places = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        places += _places(value, (*path, key))
    return places


def mutated_tree(tree: Any, rng: np.random.Generator) -> Any:
    """A JSON value with one to three places changed: another value, one missing, one more, two exchanged."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 4))):
        places = _places(tree)
        if not places:
            return tree
        *path, key = places[int(rng.integers(len(places)))]
        parent = tree
        for step in path:
            parent = parent[step]
        kind = rng.integers(7)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, dict):
            parent[str(NUMBERS[int(rng.integers(len(NUMBERS)))])] = parent[key]
        elif kind == 1:
            parent.insert(key, copy.deepcopy(parent[key]))
        elif kind == 2 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
            factor = (1.0 + 1e-15, 1.0 - 1e-9, 2.0, 0.5, -1.0, 1e3)[int(rng.integers(6))]
            parent[key] = type(parent[key])(parent[key] * factor)
        elif kind == 3:
            other = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
            second = other[int(rng.integers(len(other)))]
            parent[key], parent[second] = parent[second], parent[key]
        elif kind == 4:
            *before, last = places[int(rng.integers(len(places)))]
            value = tree
            for step in before:
                value = value[step]
            parent[key] = copy.deepcopy(value[last])
        elif kind == 5 and rng.random() < 0.1:
            value = 0
            for _ in range(int(rng.choice([20, 200, 900]))):
                value = [value] if rng.random() < 0.5 else {"k1": value, "type": "Sum", "k2": 1}
            parent[key] = value
        else:
            parent[key] = copy.deepcopy(NUMBERS[int(rng.integers(len(NUMBERS)))])
    return tree


def dumped(tree: Any) -> bytes:
    """JSON, with numbers of any size."""
    return json.dumps(tree).encode()


def json_tree(data: bytes, rng: np.random.Generator) -> bytes:
    """JSON whose values are changed."""
    return dumped(mutated_tree(json.loads(data), rng))


def json_text(data: bytes, rng: np.random.Generator) -> bytes:
    """JSON that no writer makes: nested without end, a field twice, another spelling of the same, NaN."""
    kind = rng.integers(6)
    if kind == 0:
        return b'{"a":' * int(rng.choice([10, 1000, 100_000])) + data
    if kind == 1:
        return b"[" * int(rng.choice([10, 1000, 100_000])) + data
    if kind == 2:
        record = json.loads(data)
        name = list(record)[int(rng.integers(len(record)))]
        return data.rstrip()[:-1] + b"," + json.dumps({name: record[name]}).encode()[1:]
    if kind == 3:
        return json.dumps(json.loads(data), indent=int(rng.integers(5)), sort_keys=bool(rng.integers(2))).encode()
    if kind == 4:
        return data.replace(b".", b".\x00" if rng.random() < 0.2 else b"._", 1)
    return data.decode().encode("utf-16" if rng.random() < 0.5 else "utf-8-sig")


JSON: tuple[Mutation, ...] = (*BYTES, json_tree, json_tree, json_tree, json_tree, json_text)


def cells(data: bytes, rng: np.random.Generator) -> bytes:
    """A table with cells exchanged, missing, more, or of other words."""
    lines = data.decode("utf-8").split("\n")
    for _ in range(int(rng.integers(1, 4))):
        i = int(rng.integers(len(lines)))
        row = lines[i].split(",")
        j, kind = int(rng.integers(len(row))), rng.integers(6)
        if kind == 0:
            row[j] = TOKENS[int(rng.integers(len(TOKENS)))].decode("utf-8", "replace")
        elif kind == 1:
            del row[j]
        elif kind == 2:
            row.insert(j, row[j])
        elif kind == 3:
            row[j] = str(NUMBERS[int(rng.integers(len(NUMBERS)))])
        elif kind == 4:
            k = int(rng.integers(len(lines)))
            lines[k], row = lines[i], lines[k].split(",")
        else:
            row = [f'"{row[j]}"'] * int(rng.choice([1, 2, 5000]))
        lines[i] = ",".join(row)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def wide(data: bytes, rng: np.random.Generator) -> bytes:
    """A first row of many cells, and many rows of one."""
    n = int(rng.choice([10, 300, 3000]))
    return b",".join([b"1"] * n) + b"\n" + b"1\n" * n


TABLE: tuple[Mutation, ...] = (*BYTES, cells, cells, cells, wide)

DTYPES = ("<f8", ">f8", "<f4", "<i8", "|u1", "|b1", "<c16", "<U5", "|S3", "|O", "|V8", "<M8[s]", "<f2")


def array_bytes(array: np.ndarray, **changes: Any) -> bytes:
    """An array in NumPy's format, with any header."""
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    } | changes
    text = changes.get("text") or repr({k: header[k] for k in ("descr", "fortran_order", "shape")})
    line = text.encode("latin1", "replace") + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + (len(line) % 65536).to_bytes(2, "little") + line + array.tobytes()


class Runs:
    """An object that pickle would execute: the check fails if it does."""

    def __reduce__(self) -> Any:
        return eval, ("__import__('os').environ.__setitem__('GPBOUNDS_RAN', '1')",)


def other_array(array: np.ndarray, rng: np.random.Generator) -> bytes:
    """The bytes of an array with another header, other numbers, or none at all."""
    kind, shape = rng.integers(12), array.shape
    if kind == 0:
        return array_bytes(array, shape=(*shape[:-1], int(rng.choice([0, -1, 2**31, 2**62, 10**30]))))
    if kind == 1:
        return array_bytes(array, shape=tuple(int(n) for n in rng.integers(-2, 5, size=int(rng.integers(40)))))
    if kind == 2:
        return array_bytes(array, descr=DTYPES[int(rng.integers(len(DTYPES)))])
    if kind == 3:
        return array_bytes(array, descr=[("a", "<f8"), ("b", "|O")])
    if kind == 4:
        return array_bytes(array, fortran_order=True)
    if kind == 5:
        deep = ("(" * 9000, "-" * 9000 + "1", "{'descr': " * 900, "[" * 60 + "]" * 60)
        texts = (*deep, "__import__('os')", "{}", "\x00")
        return array_bytes(array, text=texts[int(rng.integers(len(texts)))])
    if kind == 6:
        import pickle

        objects = array_bytes(np.zeros(0), descr="|O", shape=(1,))
        return objects + pickle.dumps([Runs()])
    changed = np.array(array)
    if changed.size and changed.dtype.kind == "f":
        place = int(rng.integers(changed.size))
        changed.flat[place] = (np.nan, np.inf, -1.0, 0.0, 1e308, 1e-308, -1e308)[int(rng.integers(7))]
    if kind == 7:
        changed = changed.reshape(-1)[: int(rng.integers(changed.size + 1))]
    if kind == 8:
        changed = changed.astype(DTYPES[int(rng.choice([1, 2, 3, 4, 5, 6, 12]))])
    if kind == 9:
        changed = np.concatenate([changed.reshape(-1)] * 2)
    if kind == 10 and changed.ndim == 2:
        changed = changed.T
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(changed), allow_pickle=False)
    return buffer.getvalue()


def npy(data: bytes, rng: np.random.Generator) -> bytes:
    """A .npy file with another header or other numbers."""
    with np.errstate(all="ignore"):
        return other_array(np.load(io.BytesIO(data)), rng)


NPY: tuple[Mutation, ...] = (*BYTES, npy, npy, npy)


def _unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def member(data: bytes, rng: np.random.Generator) -> bytes:
    """An archive with one or two members that are others: its checksums are right."""
    members = _unpacked(data)
    for _ in range(int(rng.integers(1, 3))):
        name = list(members)[int(rng.integers(len(members)))]
        if name == "about.npy":
            continue
        with np.errstate(all="ignore"):
            members[name] = other_array(np.load(io.BytesIO(_unpacked(data)[name])), rng)
    return _packed(list(members.items()))


def about(data: bytes, rng: np.random.Generator) -> bytes:
    """An archive whose plain values are others."""
    members = _unpacked(data)
    text = np.load(io.BytesIO(members["about.npy"])).tobytes()
    changed = JSON[int(rng.integers(len(JSON)))](text, rng)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.frombuffer(changed, dtype=np.uint8), allow_pickle=False)
    return _packed(list((members | {"about.npy": buffer.getvalue()}).items()))


def names(data: bytes, rng: np.random.Generator) -> bytes:
    """An archive with members missing, more, twice, or with the names of files elsewhere."""
    members = list(_unpacked(data).items())
    i, kind = int(rng.integers(len(members))), rng.integers(5)
    if kind == 0:
        del members[i]
    elif kind == 1:
        odd = ("/etc/passwd", "../../x.npy", "C:\\x.npy", "", "a" * 70_000, "\u202e.npy", "about", "posterior/.npy")
        members[i] = odd[int(rng.integers(len(odd)))][:65_000], members[i][1]
    elif kind == 2:
        j = int(rng.integers(len(members)))
        members[i], members[j] = (members[i][0], members[j][1]), (members[j][0], members[i][1])
    elif kind == 3:
        members.append((f"more/{i}.npy", members[i][1]))
    else:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _packed([*members, members[i]])
    return _packed(members)


def bomb(data: bytes, rng: np.random.Generator) -> bytes:
    """An archive that needs much more memory than its bytes, or says so."""
    members, kind = _unpacked(data), rng.integers(4)
    name = list(members)[int(rng.integers(len(members)))]
    if kind == 0:
        size = int(rng.choice([10**5, 10**7]))
        zeros = array_bytes(np.zeros(0), shape=(size // 8,)) + bytes(size)
        return _packed(list((members | {name: zeros}).items()), zipfile.ZIP_DEFLATED)
    if kind == 1:
        return _packed(list(members.items()), zipfile.ZIP_BZIP2 if rng.random() < 0.5 else zipfile.ZIP_LZMA)
    changed = bytearray(_packed(list(members.items())))
    # The sizes of a random entry of the directory at the end, which say more than there is.
    places = [i for i in range(len(changed) - 4) if changed[i : i + 4] == b"PK\x01\x02"]
    at = places[int(rng.integers(len(places)))]
    field = int(rng.choice([6, 8, 10, 16, 20, 24, 28, 42]))  # version, flags, method, checksum, sizes, name, offset
    changed[at + field : at + field + 4] = int(rng.integers(2**32)).to_bytes(4, "little")
    return bytes(changed)


ARCHIVE: tuple[Mutation, ...] = (*BYTES, member, member, member, about, about, about, names, bomb)


def gzipped(of: tuple[Mutation, ...]) -> tuple[Mutation, ...]:
    """Mutations of a gzip file: of its bytes, and of what is in it."""

    def inside(data: bytes, rng: np.random.Generator) -> bytes:
        changed = of[int(rng.integers(len(of)))](zlib.decompress(data, 31), rng)
        packer = zlib.compressobj(1, wbits=31)
        return packer.compress(changed) + packer.flush()

    def large(data: bytes, rng: np.random.Generator) -> bytes:
        packer = zlib.compressobj(9, wbits=31)
        line = b"1,2,3\n" * 1000
        return b"".join(packer.compress(line) for _ in range(int(rng.choice([10, 1000])))) + packer.flush()

    return (*BYTES, inside, inside, inside, large)
