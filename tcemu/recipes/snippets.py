"""Code to copy to a machine with a GPU: one product of a probe by some library, saved for `tcemu whose`."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import OperandError, did_you_mean, listing
from tcemu.recipes.probe import MARKS

_NUMPY = '''import numpy as np

M, N, K = 512, 512, 512  # your shape
SMALL, BIG = {small!r}, {big!r}


def marked(count):
    near = count // 2
    return np.arange(count) % K if count >= K else np.r_[:near, np.linspace(near, K - 1, count - near).astype(int)]


rng = np.random.default_rng(0)
A, B = rng.standard_normal((M, K)), rng.standard_normal((K, N))
A[: M // 2], B[:, : N // 2] = SMALL, SMALL
A[np.arange(M // 2), marked(M // 2)] = BIG
B[marked(N // 2), np.arange(N // 2)] = -BIG
'''

_CALLS = {
    "torch": '''import torch

A, B = (torch.from_numpy(x).to("cuda", torch.{torch}) for x in (A, B))
D = A @ B  # your call


def raw(x):
    return x.contiguous().view(torch.uint8).cpu().numpy()


np.savez("product.npz", a=raw(A), b=raw(B), d=raw(D), types=f"{{A.dtype}} {{B.dtype}} {{D.dtype}}")
''',
    "jax": '''import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", {x64})
A, B = (jnp.asarray(x, jnp.{jax}) for x in (A, B))
D = jax.jit(jnp.dot)(A, B)  # your call


def raw(x):
    return np.asarray(x).view(np.uint8)


np.savez("product.npz", a=raw(A), b=raw(B), d=raw(D), types=f"{{A.dtype}} {{B.dtype}} {{D.dtype}}")
''',
    "cupy": '''import cupy

A, B = (cupy.asarray(x, cupy.{cupy}) for x in (A, B))
D = A @ B  # your call
np.savez("product.npz", a=A.get(), b=B.get(), d=D.get())
''',
    "triton": '''import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k, sums = tl.arange(0, BK), tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + n[None, :])
        sums = tl.dot(x, y, sums)  # your call
    tl.store(d + m[:, None] * N + n[None, :], sums)


A, B = (torch.from_numpy(x).to("cuda", torch.{torch}) for x in (A, B))
D = torch.empty((M, N), device="cuda")
product[M // 64, N // 64](A, B, D, M, N, K, 64, 64, 32)


def raw(x):
    return x.contiguous().view(torch.uint8).cpu().numpy()


np.savez("product.npz", a=raw(A), b=raw(B), d=raw(D), types=f"{{A.dtype}} {{B.dtype}} {{D.dtype}}")
''',
}
_NAMES = {
    "f16": ("float16", "float16"),
    "bf16": ("bfloat16", "bfloat16"),
    "f32": ("float32", "float32"),
    "f64": ("float64", "float64"),
    "e5m2": ("float8_e5m2", "float8_e5m2"),
}
LIBRARIES = tuple(_CALLS)


@explained
def snippet(library: str, kind: str = "f32") -> str:
    """Python that multiplies a probe of type `kind` with a library and saves the product; change it to your call.

    >>> from tcemu.recipes import snippet
    >>> "D = A @ B  # your call" in snippet("torch", "bf16")
    True
    """
    if library not in _CALLS:
        known = listing(LIBRARIES)
        raise OperandError(f"there is code for {known}; got {library!r}.{did_you_mean(str(library), LIBRARIES)}")
    if kind not in MARKS or (library == "cupy" and kind not in ("f16", "f32", "f64")):
        raise OperandError(f"{library}'s probe must have elements of {listing(_kinds(library))}; got {kind!r}")
    small, big = MARKS[kind]
    torch, jax = _NAMES[kind]
    return _NUMPY.format(small=small, big=big) + "\n" + _CALLS[library].format(
        torch=torch, jax=jax, cupy=torch, x64=kind == "f64"
    )


def _kinds(library: str) -> list[str]:
    return [kind for kind in MARKS if library != "cupy" or kind in ("f16", "f32", "f64")]
