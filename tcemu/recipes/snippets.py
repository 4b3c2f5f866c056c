"""Code to copy to a machine with a GPU: one product of a probe by some library, saved for `tcemu whose`."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import OperandError, did_you_mean, listing
from tcemu.recipes.probe import SMALL_AND_BIG

_NUMPY = """import numpy as np

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
"""

_CALLS = {
    "torch": """import torch

A, B = (torch.from_numpy(x).to("cuda", torch.{torch}) for x in (A, B))
D = A @ B  # your call


def raw(x):
    return x.contiguous().view(torch.uint8).cpu().numpy()


np.savez("product.npz", a=raw(A), b=raw(B), d=raw(D), types=f"{{A.dtype}} {{B.dtype}} {{D.dtype}}")
""",
    "jax": """import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", {x64})
A, B = (jnp.asarray(x, jnp.{jax}) for x in (A, B))
D = jax.jit(jnp.dot)(A, B)  # your call


def raw(x):
    return np.asarray(x).view(np.uint8)


np.savez("product.npz", a=raw(A), b=raw(B), d=raw(D), types=f"{{A.dtype}} {{B.dtype}} {{D.dtype}}")
""",
    "cupy": """import cupy

A, B = (cupy.asarray(x, cupy.{cupy}) for x in (A, B))
D = A @ B  # your call
np.savez("product.npz", a=A.get(), b=B.get(), d=D.get())
""",
    "triton": """import torch
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
""",
}
_RANDOM = """import numpy as np

M, N, K = 512, 512, 512  # your shape
rng = np.random.default_rng(0)
A, B = {draw}
"""
_INTEGERS = "(rng.integers(-128, 128, shape) for shape in ((M, K), (K, N)))"
_FLOATS = "rng.standard_normal((M, K)), rng.standard_normal((K, N))"
_RAW = """

def raw(x):
    return x.contiguous().view(torch.uint8).cpu().numpy()


"""
_SAVED = """np.savez("product.npz", a=raw(A), b=raw(B), d=raw(D), {more}types=f"{{A.dtype}} {{B.dtype}} {{D.dtype}}")
"""
_INT_MM = (
    """import torch

A, B = (torch.from_numpy(x).to("cuda", torch.int8) for x in (A, B))
B = B.t().contiguous().t()  # column-major
D = torch._int_mm(A, B)  # your call
"""
    + _RAW
    + _SAVED.replace("{more}", "")
)
_SCALED_MM = (
    """import torch

A = torch.from_numpy(A).to("cuda", torch.{torch})
B = torch.from_numpy(B).to("cuda", torch.float8_e4m3fn).t().contiguous().t()  # column-major; e5m2 only as A
{scales}
D = torch._scaled_mm(A, B, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16)  # your call
"""
    + _RAW
    + _SAVED.replace("{more}", "scale_a=scale_a.cpu().numpy(), scale_b=scale_b.cpu().numpy(),\n         ")
)
#: The scales of torch._scaled_mm by their mode: one each; (M, 1) and (1, N); 1 x 128 of A and 128 x 128 of B.
_SCALES = {
    "tensor": 'scale_a, scale_b = (torch.tensor(x, device="cuda") for x in (0.37, 1.7))',
    "row": 'scale_a, scale_b = torch.rand(M, 1, device="cuda") + 0.5, torch.rand(1, N, device="cuda") + 0.5',
    "block": "# torch 2.8 or later, on Hopper\n"
    'scale_a = (torch.rand(K // 128, M, device="cuda") + 0.5).t()  # column-major\n'
    'scale_b = torch.rand(K // 128, N // 128, device="cuda") + 0.5',
}
_NAMES = {
    "f16": ("float16", "float16"),
    "bf16": ("bfloat16", "bfloat16"),
    "f32": ("float32", "float32"),
    "f64": ("float64", "float64"),
    "e5m2": ("float8_e5m2", "float8_e5m2"),
    "e4m3": ("float8_e4m3fn", "float8_e4m3fn"),
    "s8": ("int8", "int8"),
}
LIBRARIES = tuple(_CALLS)


@explained
def snippet(library: str, kind: str = "f32", scale: str = "") -> str:
    """Python that multiplies matrices of type `kind` with a library and saves the product; change it to your call.

    The matrices are a probe where the type can hold one. `scale` is "tensor", "row" or "block", for torch's products of
    fp8, which have scales; "tensor" by default. Raises OperandError for a library, type or scale without a snippet.

    >>> from tcemu.recipes import snippet
    >>> "D = A @ B  # your call" in snippet("torch", "bf16")
    True
    >>> "torch._scaled_mm" in snippet("torch", "e4m3", "row"), "torch._int_mm" in snippet("torch", "s8")
    (True, True)
    """
    if library not in _CALLS:
        known = listing(LIBRARIES)
        raise OperandError(f"there is code for {known}; got {library!r}.{did_you_mean(str(library), LIBRARIES)}")
    if kind not in _kinds(library):
        raise OperandError(f"{library}'s matrices must have elements of {listing(_kinds(library))}; got {kind!r}")
    scaled = library == "torch" and kind in ("e4m3", "e5m2")
    if scale and not (scaled and scale in _SCALES):
        raise OperandError(f"scales are {listing(_SCALES)}, for torch's products of e4m3 or e5m2; got {scale!r}")
    torch, jax = _NAMES[kind]
    if kind in SMALL_AND_BIG:
        small, big = SMALL_AND_BIG[kind]
        head = _NUMPY.format(small=small, big=big)
    else:
        head = _RANDOM.format(draw=_INTEGERS if kind == "s8" else _FLOATS)
    call = _SCALED_MM if scaled else _INT_MM if kind == "s8" else _CALLS[library]
    scales = _SCALES[scale or "tensor"]
    return head + "\n" + call.format(torch=torch, jax=jax, cupy=torch, x64=kind == "f64", scales=scales)


def _kinds(library: str) -> list[str]:
    if library == "cupy":
        return ["f16", "f32", "f64"]
    return [*SMALL_AND_BIG, "e4m3", *(("s8",) if library == "torch" else ())]
