"""The twins in CUDA C++ of tcemu.gemm's kernels: what each multiplies. tools/save_ptx.py compiles them."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tcemu import sparse
from tcemu.formats import lookup
from tcemu.gemm import (
    attention,
    attention_wgmma,
    grouped_fp8,
    mma_pipeline,
    mma_sparse,
    paged_decode,
    shipped,
    split_k,
    twins,
    w4a16,
    wgmma_cluster,
    wgmma_epilogue,
    wgmma_persistent,
    wgmma_sparse,
    wgmma_stream,
    wgmma_tma,
    wmma_global,
)

Array = np.ndarray[Any, Any]


class Twin(NamedTuple):
    """A Python kernel and its twin, which take the same arguments."""

    ours: Callable[..., Any]
    theirs: Callable[..., Array]
    given: tuple[Any, ...]


def matrix(element: str, *shape: int) -> Array:
    """Numbers around 0 of a format."""
    rng, form = np.random.default_rng(sum(shape)), lookup(element)
    numbers = rng.integers(-128, 128, shape) if form.kind == "integer" else rng.standard_normal(shape)
    return numbers.astype(form.dtype)


def factors(element: str, m: int, n: int, k: int) -> tuple[Array, Array]:
    """A and B."""
    return matrix(element, m, k), matrix(element, k, n)


def planned(plan: Any, blocks: int = 1) -> tuple[Array, Array]:
    """A and B for a plan: edges in every direction, and several stages."""
    return factors(plan.element, plan.rows + 37, (blocks + 1) * plan.columns - 3, 3 * plan.depth + 16)


def pruned(a: Array, b: Array, instruction: Any) -> tuple[Array, Array]:
    """A with half of its values, and B."""
    return sparse.prune(a, instruction), b


def experts(sizes: list[int], n: int, k: int) -> tuple[Any, ...]:
    """A, its scales, B, its scales, and the rows of each group."""
    blocks = -(-k // 128)
    scales = [np.abs(matrix("f32", *shape)) for shape in ((sum(sizes), blocks), (len(sizes), -(-n // 128), blocks))]
    return matrix("e4m3", sum(sizes), k), scales[0], matrix("e4m3", len(sizes), n, k), scales[1], sizes


def cached() -> tuple[Any, ...]:
    """Queries of two sequences, the cache of their keys and values, the block table, the lengths."""
    cache = [matrix("f16", 12, 16, 2, each)[..., :128] for each in (128, 129)]
    table = np.array([[3, 7, 1, 0, 11, 2], [5, 4, 9, 0, 0, 0]], np.int32)
    return matrix("f16", 2, 10, 128), *cache, table, np.array([90, 33], np.int32)


_F16 = factors("f16", 100, 136, 168)
_HOPPER = [
    wgmma_tma.Plan("f16", columns=64),
    wgmma_tma.Plan("tf32", columns=64),
    wgmma_tma.Plan("e4m3", columns=64, promote=True),
    wgmma_tma.Plan("s8", columns=32, consumers=3, stages=5),
]
_CLUSTER = wgmma_cluster.ClusterPlan("e4m3", columns=64, blocks=4, stages=2)
_STREAM = wgmma_tma.Plan("bf16", columns=64)
_PERSISTENT = {name: replace(plan, columns=64, stages=3) for name, plan in wgmma_persistent.SCHEDULES.items()}
_HALVED = wgmma_sparse.SparsePlan("f16", columns=64)
TWINS = {
    "wmma_global": Twin(wmma_global.multiply, twins.wmma_global, factors("f16", 64, 64, 48)),
    "mma_pipeline": Twin(mma_pipeline.multiply, twins.mma_pipeline, _F16),
    "split_k": Twin(split_k.multiply, twins.split_k, (*_F16, 3)),
    "mma_sparse": Twin(mma_sparse.multiply, twins.mma_sparse, pruned(*_F16, mma_sparse.MMA)),
    **{
        f"wgmma_tma-{each.element}": Twin(wgmma_tma.multiply, twins.wgmma_tma, (*planned(each), each))
        for each in _HOPPER
    },
    "wgmma_epilogue": Twin(wgmma_epilogue.multiply, twins.wgmma_epilogue, (*_F16, matrix("f32", 136))),
    "wgmma_sparse": Twin(wgmma_sparse.multiply, twins.wgmma_sparse, (*pruned(*planned(_HALVED), _HALVED.mma), _HALVED)),
    "wgmma_cluster": Twin(wgmma_cluster.multiply, twins.wgmma_cluster, (*planned(_CLUSTER, 4), _CLUSTER)),
    "wgmma_stream": Twin(wgmma_stream.multiply, twins.wgmma_stream, (*planned(_STREAM), 3, _STREAM)),
    **{
        f"wgmma_persistent-{name}": Twin(
            wgmma_persistent.multiply, shipped.wgmma_persistent, (*planned(plan, 2), plan, 3)
        )
        for name, plan in _PERSISTENT.items()
    },
    "grouped_fp8": Twin(grouped_fp8.multiply, shipped.grouped_fp8, experts([70, 0, 130], 136, 272)),
    "paged_decode": Twin(paged_decode.attend, shipped.paged_decode, cached()),
    "w4a16": Twin(
        w4a16.multiply,
        shipped.w4a16,
        (matrix("f16", 70, 256), matrix("s8", 256, 128) >> 4, np.abs(matrix("f16", 2, 128))),
    ),
    "attention": Twin(attention.attend, twins.attention, tuple(matrix("f16", 64 + n, 64)[:64] for n in range(3))),
    **{
        f"attention_wgmma-{name}": Twin(
            attention_wgmma.attend,
            shipped.attention_wgmma,
            (matrix("f16", 2, queries, 128), *(matrix("f16", 1, 300, each)[:, :, :128] for each in (128, 129)), causal),
        )
        for name, queries, causal in (("full", 100, False), ("causal", 200, True))
    },
}


def key(text: str, define: Mapping[str, object]) -> str:
    """The name of a twin's PTX in the golden file: the hash of what is compiled."""
    common = (twins.FOLDER / "common.h").read_text(encoding="utf-8")
    return hashlib.sha256(repr((text, common, sorted(define.items()))).encode()).hexdigest()[:16]
