"""Kernels in Triton and their launches; tools/save_ptx.py compiles them, test_triton.py says what they compute."""

import ml_dtypes
import numpy as np

try:
    import triton
    from triton import language as tl

    jit = triton.jit
except ImportError:  # their PTX is stored

    class tl:  # noqa: N801 - Triton's name
        """What annotations name."""

        constexpr = None

    def jit(function):
        """The function as it is."""
        return function


@jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, values / tl.sum(values, axis=0), mask=at < n)


@jit
def layernorm(x, y, weight, bias, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row * stride + at, mask=inside, other=0.0).to(tl.float32)
    average = tl.sum(values, 0) / n
    centred = tl.where(inside, values - average, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    normal = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(y + row * stride + at, normal, mask=inside)


@jit
def matmul(a, b, c, M, N, K, A_ROW, B_ROW, C_ROW, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at_a, at_b = a + (m % M)[:, None] * A_ROW + k[None, :], b + k[:, None] * B_ROW + (n % N)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        x = tl.load(at_a, mask=k[None, :] < K - step * BK, other=0.0)
        y = tl.load(at_b, mask=k[:, None] < K - step * BK, other=0.0)
        total = tl.dot(x, y, total)
        at_a += BK
        at_b += BK * B_ROW
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * C_ROW + n[None, :], total.to(c.dtype.element_ty), mask=inside)


@jit
def matmul_tma(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    of_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    of_b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    of_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(of_a.load([m, k]), of_b.load([k, n]), total)
    of_c.store([m, n], total.to(tl.float16))


@jit
def attention(q, k, v, out, scale, n, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows, at, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, WIDTH), tl.arange(0, BN)
    queries = tl.load(q + rows[:, None] * WIDTH + at[None, :])
    most = tl.zeros([BM], tl.float32) - float("inf")
    below, total = tl.zeros([BM], tl.float32), tl.zeros([BM, WIDTH], tl.float32)
    for start in range(0, n, BN):
        keys = tl.load(k + (start + columns)[None, :] * WIDTH + at[:, None])
        scores = tl.dot(queries, keys) * scale
        now = tl.maximum(most, tl.max(scores, 1))
        shrink, weights = tl.exp2(most - now), tl.exp2(scores - now[:, None])
        below, total = below * shrink + tl.sum(weights, 1), total * shrink[:, None]
        values = tl.load(v + (start + columns)[:, None] * WIDTH + at[None, :])
        total, most = tl.dot(weights.to(tl.float16), values, total), now
    tl.store(out + rows[:, None] * WIDTH + at[None, :], (total / below[:, None]).to(tl.float16))


FP8 = ml_dtypes.float8_e4m3fn


def reals(shape, dtype=np.float32, seed=0):
    """Numbers around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _softmax():
    x = reals((6, 300))
    return np.zeros_like(x), x, x.shape[1], x.shape[1]


def _layernorm():
    x = reals((5, 200))
    rows = np.zeros(5, np.float32), np.zeros(5, np.float32)
    return x, np.zeros_like(x), reals(200, seed=1), reals(200, seed=2), *rows, 200, 200, 1e-5


def _matmul(dtype, out, m, n, k):
    a, b = reals((m, k), dtype), reals((k, n), dtype, 1)
    return a, b, np.zeros((m, n), out), m, n, k, k, n, n


def _attention():
    q, k, v = (reals((128, 64), np.float16, seed) for seed in range(3))
    return q, k, v, np.zeros_like(q), float(np.log2(np.e) / 8), 128


#: The function, the grid, the arguments, and the constants.
LAUNCHES = {
    "softmax": (softmax, 6, _softmax, {"BLOCK": 512}),
    "layernorm": (layernorm, 5, _layernorm, {"BLOCK": 256}),
    "matmul": (matmul, (2, 2), lambda: _matmul(np.float16, np.float16, 100, 96, 80), {"BM": 64, "BN": 64, "BK": 32}),
    "matmul_fp8": (
        matmul, (1, 1), lambda: _matmul(FP8, np.float32, 64, 64, 128), {"BM": 64, "BN": 64, "BK": 64},
    ),
    "matmul_tma": (
        matmul_tma, (2, 1), lambda: _matmul(np.float16, np.float16, 128, 64, 128)[:6], {"BM": 64, "BN": 64, "BK": 64},
    ),
    "attention": (attention, 2, _attention, {"WIDTH": 64, "BM": 64, "BN": 64}),
}  # fmt: skip
#: fp8 and descriptors are for sm_90.
TARGETS = {name: ("sm_90a",) if name in ("matmul_fp8", "matmul_tma") else ("sm_80", "sm_90a") for name in LAUNCHES}
