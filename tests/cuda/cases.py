"""Launches of the kernels in corpus/: what each is given, the same everywhere; tools/record_cuda.py asks a GPU."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CORPUS = Path(__file__).parent / "corpus"
#: Of one-dimensional kernels: elements, and threads in a block.
N, BLOCK = 2048, 128

Dims = int | tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A launch. `make` gives the arguments: arrays, which the kernel may change, scalars of numpy's types, or bytes."""

    file: str
    kernel: str
    grid: Dims
    block: Dims
    make: Callable[[np.random.Generator], tuple[Any, ...]]
    shared: int = 0

    @property
    def source(self) -> Path:
        """The file with the kernel."""
        return CORPUS / f"{self.file}.cu"

    def args(self) -> tuple[Any, ...]:
        """The arguments, new ones at each call."""
        return self.make(np.random.default_rng(zlib.crc32(self.kernel.encode())))

    def __str__(self) -> str:
        return f"{self.file}-{self.kernel}"


def _reals(dtype: type[Any] = np.float32, spread: int = 12) -> Callable[[np.random.Generator], Any]:
    """Numbers of many sizes, of both signs, and the special ones."""

    def make(rng: np.random.Generator) -> Any:
        with np.errstate(all="ignore"):
            x = np.ldexp(rng.standard_normal(N), rng.integers(-spread, spread, N)).astype(dtype)  # exact everywhere
            info = np.finfo(dtype)
            special = [0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, -info.tiny]
            special += [info.smallest_subnormal, 3 * info.smallest_subnormal, 1 - info.epsneg, 1 + info.eps]
            special += [88, -104, 1e30]
            x[: len(special)] = special
            x[256 : 256 + 256] = rng.integers(0, 1 << 32, 256, np.uint32).view(np.float32)  # any pattern
        return x

    return make


def _unary(rows: int, real: type[Any] = np.float32, out: type[Any] = np.float32, spread: int = 12) -> Any:
    return lambda rng: (_reals(real, spread)(rng), np.zeros(rows * N, out), np.int32(N))


def _binary(rows: int, real: type[Any] = np.float32, out: type[Any] = np.float32, spread: int = 12) -> Any:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x, y = _reals(real, spread)(rng), _reals(real, spread)(rng)
        return x, rng.permutation(y), np.zeros(rows * N, out), np.int32(N)

    return make


def _words(rng: np.random.Generator, dtype: type[Any] = np.uint32) -> Any:
    x = rng.integers(0, 1 << 63, N, np.uint64).astype(dtype)
    x[:8] = np.array([0, 1, 2, (1 << 64) - 1, 1 << 31, (1 << 31) - 1, 31, 32], np.uint64).astype(dtype)
    return x


def _integers(rows: int, dtype: type[Any] = np.uint32, out: type[Any] = np.uint32) -> Any:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        return _words(rng, dtype), rng.permutation(_words(rng, dtype)), np.zeros(rows * N, out), np.int32(N)

    return make


def _video(rows: int) -> Any:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        given = [rng.permutation(_words(rng)) for _ in range(3)]
        return *given, np.zeros(rows * N, np.uint32), np.int32(N)

    return make


def _edges(rng: np.random.Generator) -> Any:
    """Words of four kinds: any, small ones of both signs, bytes around 0 and 128, and any with fewer bits."""
    whole, small = rng.integers(0, 1 << 32, N, np.uint32), rng.integers(-40, 41, N).astype(np.int32).view(np.uint32)
    edge = rng.choice(np.array([0, 1, 0x7F, 0x80, 0xFF], np.uint8), (N, 4)).view(np.uint32)[:, 0]
    return rng.permutation(
        np.choose(np.arange(N) % 4, [whole, small, edge, whole >> rng.integers(0, 32, N, np.uint32)])
    )


def _scalars(rows: int) -> Any:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        return *(_edges(rng) for _ in range(3)), np.zeros(rows * N, np.uint32), np.int32(N)

    return make


def _halves(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float16)


def _brains(rng: np.random.Generator, *shape: int) -> Any:
    """Bfloat16, as patterns."""
    return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _small(rng: np.random.Generator, count: int = N, most: int = 1000) -> Any:
    return rng.integers(0, most, count).astype(np.int32)


def _normal(rng: np.random.Generator, *shape: int, dtype: type[Any] = np.float32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def _scene(rng: np.random.Generator) -> bytes:
    """Struct Scene of memory.cu."""
    plane = np.dtype([("abc", "<f4", 3), ("flips", "<i4"), ("offset", "<f8")], align=True)
    scene = np.zeros((), np.dtype([("planes", plane, 3), ("count", "<i2")], align=True))
    scene["planes"]["abc"], scene["planes"]["flips"] = _normal(rng, 3, 3), [0, 1, 0]
    scene["planes"]["offset"], scene["count"] = [0.5, -1, 2], 100
    return scene.tobytes()


def _graph(rng: np.random.Generator, nodes: int, degree: int) -> tuple[Any, Any]:
    counts = rng.integers(0, 2 * degree, nodes)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return first, rng.integers(0, nodes, first[-1]).astype(np.int32)


def _distances(nodes: int) -> Any:
    x = np.full(nodes, -1, np.int32)
    x[::37] = 2
    return x


_ALL = N // BLOCK
# fmt: off
CASES = [
    Case("math", "exponentials", _ALL, BLOCK, _unary(9, spread=6)),
    Case("math", "fast_math", _ALL, BLOCK, _binary(14, spread=6)),
    Case("math", "trigonometry", _ALL, BLOCK, _unary(16)),
    Case("math", "powers", _ALL, BLOCK, _binary(16, spread=4)),
    Case("math", "specials", _ALL, BLOCK, _unary(11, spread=3)),
    Case("math", "roundings", _ALL, BLOCK, _binary(23)),
    Case("math", "doubles", _ALL, BLOCK, _binary(23, np.float64, np.float64, 6)),
    Case("math", "conversions", _ALL, BLOCK, lambda rng: (
        _reals(spread=40)(rng), _reals(np.float64, 60)(rng), np.zeros(22 * N, np.int64), np.int32(N))),
    Case("math", "halves", _ALL, BLOCK, _binary(34, out=np.uint16, spread=4)),
    Case("math", "bfloats", _ALL, BLOCK, _binary(19, out=np.uint16, spread=4)),
    Case("math", "eights", _ALL, BLOCK, _binary(6, out=np.uint32, spread=6)),
    Case("integers", "bits", _ALL, BLOCK, _integers(31)),
    Case("integers", "dots", _ALL, BLOCK, _integers(13)),
    Case("integers", "divisions", _ALL, BLOCK, _integers(12, out=np.uint64)),
    Case("integers", "wide", _ALL, BLOCK, _integers(10, np.uint64, np.uint64)),
    Case("integers", "random", 8, 64, lambda rng: (np.zeros((500, 4), np.uint32), np.uint32(7), np.int32(500))),
    Case("integers", "collatz", 3, 96, lambda rng: (np.zeros(280, np.uint32), np.int32(280))),
    Case("integers", "gcd", _ALL, BLOCK, _integers(1)),
    Case("integers", "recursion", 1, 24, lambda rng: (np.zeros(24, np.uint32),)),
    Case("integers", "chosen", _ALL, BLOCK, lambda rng: (_words(rng), np.zeros(N, np.uint32), np.int32(N))),
    Case("integers", "sieve", 1, 96, lambda rng: (np.zeros(2000, np.uint8), np.int32(2000))),
    Case("integers", "hash", 4, 64, lambda rng: (_words(rng)[:256], np.zeros(256, np.uint32), np.int32(256))),
    *(Case("video", name, _ALL, BLOCK, _video(48)) for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")),
    Case("video", "vset", _ALL, BLOCK, _video(96)),
    Case("video", "selected", _ALL, BLOCK, _video(90)),
    Case("warps", "shuffles", 4, 64, lambda rng: (_small(rng, 256), np.zeros(6 * 256, np.int32))),
    Case("warps", "votes", 4, 64, lambda rng: (_small(rng, 256), np.zeros(9 * 256, np.uint32))),
    Case("warps", "groups", 4, 64, lambda rng: (_small(rng, 256), np.zeros(5 * 256, np.int32))),
    Case("warps", "compact", 1, 32, lambda rng: (
        _small(rng, 512), np.zeros(512, np.int32), np.zeros(1, np.int32), np.int32(512))),
    Case("warps", "sort_in_a_warp", 2, 64, lambda rng: (_small(rng, 128),)),
    Case("warps", "turns", 1, 32, lambda rng: (np.zeros(64, np.int32),)),
    Case("blocks", "reduce", 4, 128, lambda rng: (_normal(rng, 3001), np.zeros(4, np.float32), np.int32(3001)), 512),
    Case("blocks", "scan", 3, 256, lambda rng: (_small(rng, 768), np.zeros(768, np.int32))),
    Case("blocks", "histogram", 4, 96, lambda rng: (
        rng.integers(0, 256, 3000).astype(np.uint8), np.zeros(64, np.uint32), np.int32(3000))),
    Case("blocks", "transpose", (3, 2), (32, 8), lambda rng: (
        _normal(rng, 50, 70), np.zeros((70, 50), np.float32), np.int32(50), np.int32(70))),
    Case("blocks", "transpose_bytes", (3, 2), (32, 8), lambda rng: (
        rng.integers(0, 100, (50, 70)).astype(np.int8), np.zeros((70, 50), np.int8), np.int32(50), np.int32(70))),
    Case("blocks", "matmul", (3, 3), (16, 16), lambda rng: (
        _normal(rng, 40, 37), _normal(rng, 37, 45), np.zeros((40, 45), np.float32), *map(np.int32, (40, 45, 37)))),
    Case("blocks", "matmul_f64", (2, 2), (16, 16), lambda rng: (
        _normal(rng, 32, 32, dtype=np.float64), _normal(rng, 32, 32, dtype=np.float64), np.zeros((32, 32)),
        np.int32(32))),
    Case("blocks", "softmax", 4, 128, lambda rng: (
        3 * _normal(rng, 4, 300), np.zeros((4, 300), np.float32), np.int32(300))),
    Case("blocks", "layernorm", 4, 96, lambda rng: (
        _halves(rng, 4, 200), _normal(rng, 200), _normal(rng, 200), np.zeros((4, 200), np.float16), np.int32(200))),
    Case("blocks", "gelu", 8, 128, lambda rng: (_halves(rng, 2000), np.zeros(2000, np.float16), np.int32(1000))),
    Case("blocks", "sort", 2, 256, lambda rng: (_words(rng)[:1024],)),
    Case("blocks", "counted", 4, 96, lambda rng: (_small(rng, 384), np.zeros(3 * 384, np.int32))),
    Case("blocks", "named", 1, 128, lambda rng: (np.zeros(128, np.int32),)),
    Case("blocks", "atomics", 4, 64, lambda rng: (
        _small(rng, 256), np.zeros(10, np.int32), np.zeros(2, np.uint64), np.zeros(1, np.float32))),
    Case("blocks", "last_block", 5, 64, lambda rng: (
        _small(rng, 1280), np.zeros(5, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32))),
    Case("memory", "vectors", 8, 64, lambda rng: (_normal(rng, 500, 4), np.zeros((500, 2), np.float32), np.int32(500))),
    Case("memory", "blur", 8, 64, lambda rng: (_normal(rng, 500), np.zeros(500, np.float32), np.int32(500))),
    Case("memory", "variables", 1, 96, lambda rng: (np.zeros(96, np.int32),)),
    Case("memory", "by_value", 2, 64, lambda rng: (_scene(rng), _normal(rng, 100, 3), np.zeros(100, np.float32))),
    Case("memory", "pipelined", 1, 128, lambda rng: (_normal(rng, 1280), np.zeros(128, np.float32), np.int32(1280))),
    Case("memory", "barriers", 3, 256, lambda rng: (_small(rng, 768), np.zeros(768, np.int32))),
    Case("memory", "bytes", 8, 64, lambda rng: (
        rng.integers(0, 256, 500).astype(np.uint8), np.zeros(500, np.uint8), np.int32(500))),
    Case("memory", "generic", 1, 32, lambda rng: (_small(rng, 32), np.zeros(32, np.int32))),
    Case("tensors", "wmma_f16", (3, 2), 32, lambda rng: (
        _halves(rng, 32, 64), _halves(rng, 48, 64), np.zeros((32, 48), np.float32), np.int32(48), np.int32(64))),
    Case("tensors", "wmma_f16_f16", (4, 2), 32, lambda rng: (
        _halves(rng, 64, 64), _halves(rng, 32, 64), np.zeros((64, 32), np.float16), np.int32(32), np.int32(64))),
    Case("tensors", "wmma_bf16", (2, 3), 32, lambda rng: (
        _brains(rng, 24, 48), _brains(rng, 64, 48), np.zeros((24, 64), np.float32), np.int32(64), np.int32(48))),
    Case("tensors", "wmma_s8", (2, 2), 32, lambda rng: (
        rng.integers(-128, 128, (32, 64)).astype(np.int8), rng.integers(-128, 128, (32, 64)).astype(np.int8),
        np.zeros((32, 32), np.int32), np.int32(32), np.int32(64))),
    Case("tensors", "wmma_f64", (2, 2), 32, lambda rng: (
        _normal(rng, 16, 24, dtype=np.float64), _normal(rng, 16, 24, dtype=np.float64), np.zeros((16, 16)),
        np.int32(16), np.int32(24))),
    Case("tensors", "attention", 1, 32, lambda rng: (
        _halves(rng, 16, 16), _halves(rng, 64, 16), _halves(rng, 64, 16), np.zeros((16, 16), np.float32))),
    Case("programs", "mandelbrot", (3, 4), (16, 8), lambda rng: (
        np.zeros((30, 40), np.int32), np.int32(40), np.int32(30), np.int32(120))),
    Case("programs", "nbody", 2, 64, lambda rng: (_normal(rng, 128, 4), np.zeros((128, 3), np.float32), np.int32(128))),
    Case("programs", "black_scholes", 8, 64, lambda rng: (
        rng.uniform(5, 30, 500).astype(np.float32), rng.uniform(1, 100, 500).astype(np.float32),
        rng.uniform(0.2, 10, 500).astype(np.float32), np.zeros(500, np.float32), np.zeros(500, np.float32),
        np.int32(500))),
    Case("programs", "fft", 2, 128, lambda rng: (_normal(rng, 512, 2),)),
    Case("programs", "heat", (2, 3), (32, 8), lambda rng: (
        _normal(rng, 24, 24, dtype=np.float64), np.zeros((24, 24)), np.int32(24))),
    Case("programs", "life", (1, 4), (32, 8), lambda rng: (
        rng.integers(0, 2, (32, 32)).astype(np.uint8), np.zeros((32, 32), np.uint8), np.int32(32))),
    Case("programs", "breadth_first", 4, 64, lambda rng: (
        *_graph(rng, 250, 5), _distances(250), np.zeros(1, np.int32), np.int32(2), np.int32(250))),
    Case("programs", "sparse", 8, 64, lambda rng: (
        *(graph := _graph(rng, 16, 40)), _normal(rng, len(graph[1])), _normal(rng, 16), np.zeros(16, np.float32),
        np.int32(16))),
    Case("programs", "pi", 2, 64, lambda rng: (np.zeros(1, np.uint32), np.int32(200))),
]
# fmt: on

#: Straight code of hundreds of instructions, which takes minutes to compile here: tests/alu/test_scalar_video.py.
SCALARS = [
    *(
        Case("scalars", name, _ALL, BLOCK, _scalars(240))
        for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr")
    ),
    Case("scalars", "vset", _ALL, BLOCK, _scalars(360)),
    Case("scalars", "vmad", _ALL, BLOCK, _scalars(480)),
    Case("scalars", "plus_one", _ALL, BLOCK, _scalars(192)),
]
