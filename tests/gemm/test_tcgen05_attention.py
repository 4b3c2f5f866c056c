"""Attention in Tensor Memory: to the bit what the same arithmetic gives tile by tile, by tcemu.matmul and in numpy."""

import shutil
import subprocess

import numpy as np
import pytest

import tcemu
from tcemu.errors import OperandError
from tcemu.gemm import attention, shipped, tcgen05_attention, twins
from tcemu.machine import scalar

#: The same sums as tcgen05.mma of f16 on this chip.
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def normal(seed, rows, scale=1):
    return (scale * np.random.default_rng(seed).standard_normal((rows, 64))).astype(np.float16)


def padded(matrix, rows):
    return np.pad(matrix, [(0, -len(matrix) % rows), (0, 0)])


def product(a, b, c):
    return tcemu.matmul(a, np.ascontiguousarray(b), c, instruction=MMA, target="sm_100a")


def by_tiles(q, k, v):
    """One tile of keys after the other, all rows at once. Also: whether a row's largest score was kept or renewed."""
    queries, keys = len(q), len(k)
    q, k, v = (padded(each, 128) for each in (q, k, v))
    largest, total = np.full(len(q), -np.inf, np.float32), np.zeros(len(q), np.float32)
    out, seen = np.zeros(q.shape, np.float32), set()
    for tile in range(0, len(k), 128):
        s = product(q, k[tile : tile + 128].T, np.zeros((len(q), 128), np.float32))
        s[:, np.arange(tile, tile + 128) >= keys] = -np.inf
        before, found = largest, np.maximum(largest, s.max(axis=1))
        grown = (found - before) * attention.SCALE > 8
        if tile > 0:
            seen |= set(zip(grown[:queries].tolist(), (found > before)[:queries].tolist(), strict=True))
        largest = np.where(grown, found, before)
        factor = attention.exp2((before - largest) * attention.SCALE)
        p = attention.exp2(scalar.fma(s, attention.SCALE, (largest * -attention.SCALE)[:, None]))
        total = scalar.fma(total, factor, np.add.accumulate(p, axis=1)[:, -1])
        out = product(p.astype(np.float16), v[tile : tile + 128], out * factor[:, None])
    return (out / total[:, None])[:queries], seen


def equal(found, expected):
    return found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize(("queries", "keys", "scale"), [(150, 600, 12), (128, 256, 1), (1, 1, 1), (70, 129, 4)])
def test_every_order_gives_the_bits_of_one_tile_after_the_other(policy, queries, keys, scale):
    q, k, v = normal(1, queries, scale), normal(2, keys), normal(3, keys)
    wanted, _ = by_tiles(q, k, v)
    found, result = tcgen05_attention.attend(q, k, v, policy=policy, seed=keys, sanitizer="collect")
    assert equal(found, wanted)
    assert result.reports == []


def test_the_cases_keep_and_renew_largest_scores():
    _, seen = by_tiles(normal(1, 150, 12), normal(2, 600), normal(3, 600))
    assert seen == {(False, False), (False, True), (True, True)}


def test_it_is_close_to_the_exact_one():
    q, k, v = normal(1, 140), normal(2, 300), normal(3, 300)
    found, _ = tcgen05_attention.attend(q, k, v, sanitizer="off")
    exact = q.astype(float) @ k.T.astype(float) / 8
    weights = np.exp(exact - exact.max(axis=1, keepdims=True))
    assert np.abs(found - weights @ v.astype(float) / weights.sum(axis=1, keepdims=True)).max() < 1e-3


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        ("tcgen05_wait_st", "tcgen05-wait"),
        ("tcgen05_wait_ld", "tcgen05-wait"),
        ("tcgen05_fence_before_thread_sync", "tcgen05-fence"),
        ("tcgen05_fence_after_thread_sync", "tcgen05-fence"),
    ],
)
def test_each_wait_and_fence_is_missed(monkeypatch, method, rule):
    monkeypatch.setattr(tcgen05_attention.Warp, method, lambda warp: None)
    q, k, v = normal(1, 128), normal(2, 300), normal(3, 300)
    _, result = tcgen05_attention.attend(q, k, v, sanitizer="collect")
    assert rule in {report.rule for report in result.reports}


def test_other_shapes_are_refused():
    good = np.zeros((8, 64), np.float16)
    with pytest.raises(OperandError, match=r"q must be float16 \(queries, 64\), k and v \(keys, 64\)"):
        tcgen05_attention.attend(good, good[:, :32], good)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_ptxas_takes_the_twin(tmp_path):
    text, define = shipped.blackwell_attention_source()
    (tmp_path / "twin.cu").write_text(text)
    options = [f"-I{twins.FOLDER}", *(f"-D{word}={value}" for word, value in define.items())]
    command = ["nvcc", "-arch=sm_100a", "-cubin", "-o", "twin.cubin", *options, "twin.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
