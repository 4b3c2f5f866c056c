"""Kernels that people ship: the bits of a formulation in numpy and tcemu.matmul, in every order, without a report."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import tcemu
from tcemu.errors import OperandError
from tcemu.gemm import (
    attention_wgmma,
    grouped_fp8,
    mma_pipeline,
    paged_decode,
    scalar,
    w4a16,
    wgmma_persistent,
)
from tcemu.gemm.wgmma_persistent import PersistentPlan

POLICIES = ("late", "early", "random")


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def padded(matrix, *units):
    """With zeros up to whole units."""
    return np.pad(matrix, [(0, -size % unit) for size, unit in zip(matrix.shape, units, strict=True)])


def same(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert np.array_equal(found.view(f"u{found.itemsize}"), wanted.view(f"u{wanted.itemsize}"))


def silent(launch):
    assert (launch.parted, launch.reports, launch.error) == ([], [], None)


# ---------------------------------------------------------------------------------------------------- persistent

PLANS = {name: replace(plan, columns=64, stages=3) for name, plan in wgmma_persistent.SCHEDULES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_a_persistent_kernel(row, name):
    """Several tiles for each block, with edges in every direction; K may be shorter than the stages, or longer."""
    plan = PLANS[name]
    for number, depth in enumerate((40, 200, 328)):
        a, b = normal(1, 300, depth), normal(2, depth, 150)
        wanted = tcemu.matmul(padded(a, 64, 16), padded(b, 16, 64), instruction=plan.mma)[:300, :150]
        with row(f"K = {depth}"):
            found, launch = wgmma_persistent.multiply(a, b, plan, 3, policy=POLICIES[number], seed=number)
            same(found, wanted)
            silent(launch)
            assert launch.blocks == 3


def test_blocks_more_than_tiles_are_not_launched():
    found, launch = wgmma_persistent.multiply(normal(1, 64, 16), normal(2, 16, 64), "ping-pong", sanitizer="off")
    assert (found.shape, launch.blocks) == ((64, 64), 1)


def test_three_teams():
    plan = PersistentPlan("e4m3", columns=32, consumers=1, teams=3, stages=2)
    a, b = (normal(seed, 320, 320).astype("float8_e4m3fn") for seed in (1, 2))
    found, launch = wgmma_persistent.multiply(a, b, plan, 4, policy="random")
    same(found, tcemu.matmul(a, b, instruction=plan.mma))
    silent(launch)


def test_a_team_that_does_not_wait_for_its_turn(monkeypatch):
    """Its wait for a stage ends two turns early: the parity is the same."""
    monkeypatch.setattr(wgmma_persistent, "await_turn", lambda *_: None)
    a, b = normal(1, 256, 256), normal(2, 256, 64)
    _, launch = wgmma_persistent.multiply(a, b, PLANS["ping-pong"], 1, policy="late", sanitizer="collect")
    assert "tma-unwaited" in {report.rule for report in launch.reports}


@pytest.mark.parametrize(("down", "across", "group"), [(5, 3, 2), (4, 4, 8), (1, 7, 3), (6, 1, 4)])
def test_each_tile_has_one_place(down, across, group):
    places = [wgmma_persistent.place(tile, down, across, group) for tile in range(down * across)]
    assert sorted(places) == [(y, x) for y in range(down) for x in range(across)]
    bands = [y // group for y, _ in places]
    assert bands == sorted(bands)  # a group of rows is finished before the next one begins


@pytest.mark.parametrize(
    ("schedule", "blocks", "message"),
    [
        ("pingpong", 1, "the schedule must be 'cooperative' or 'ping-pong', or a PersistentPlan; got 'pingpong'"),
        (PersistentPlan(teams=2), 1, "2 teams of 2 consumer warpgroups: this kernel has 2 or 3 warpgroups that"),
        (PersistentPlan(group=0), 1, "group and blocks must be at least 1; got 0 and 1"),
        ("cooperative", 0, "group and blocks must be at least 1; got 8 and 0"),
    ],
)
def test_persistent_kernels_that_cannot_be(schedule, blocks, message):
    with pytest.raises(OperandError, match=re.escape(message)):
        wgmma_persistent.multiply(normal(1, 64, 64), normal(2, 64, 64), schedule, blocks)


# ---------------------------------------------------------------------------------------------------- attention


def attended(q, k, v, causal):
    """The documented order, head by head, a tile of 128 keys after the other, all rows at once."""
    (heads, queries, _), keys = q.shape, k.shape[1]
    limit = np.arange(queries) + keys - queries + 1 if causal else np.full(queries, keys)
    out = []
    for head in range(heads):
        own, (theirs, values) = q[head], (each[head * len(k) // heads] for each in (k, v))
        largest, total = np.full(queries, -np.inf, np.float32), np.zeros((queries, 4), np.float32)
        o = np.zeros((queries, 128), np.float32)
        for first in range(0, keys, 128):
            tile, held = (padded(each[first : first + 128], 128, 1) for each in (theirs, values))
            s = product(own, tile.T, np.zeros_like(o))
            s[np.arange(first, first + 128) >= limit[:, None]] = -np.inf
            before, largest = largest, np.maximum(largest, s.max(axis=1))
            factor = scalar.ex2((before - largest) * attention_wgmma.SCALE)
            powers = scalar.ex2(scalar.fma(s, attention_wgmma.SCALE, (largest * -attention_wgmma.SCALE)[:, None]))
            lanes = powers.reshape(queries, 16, 4, 2)  # of a row, lane t has columns 8 n + 2 t and the next one
            pairs = lanes[..., 0] + lanes[..., 1]
            here = np.zeros((queries, 4), np.float32)
            for n in range(16):
                here = here + pairs[:, n]
            total = scalar.fma(total, factor[:, None], here)
            o = product(powers.astype(np.float16), held, o * factor[:, None])
        whole = (total[:, 0] + total[:, 1]) + (total[:, 2] + total[:, 3])
        out.append((o * (np.float32(1) / whole)[:, None]).astype(np.float16))
    return np.stack(out)


def product(a, b, c):
    """A B + C of any number of rows, as wgmma computes it."""
    rows = len(a)
    given = padded(a, 64, 1), np.ascontiguousarray(b), padded(c, 64, 1)
    return tcemu.matmul(*given, instruction=attention_wgmma.MMA)[:rows]


ATTENTIONS = [(2, 1, 100, 300, False), (1, 1, 150, 150, True), (2, 2, 70, 260, True), (1, 1, 1, 1, False)]


@pytest.mark.slow
def test_attention_with_wgmma(row):
    for number, (heads, fewer, queries, keys, causal) in enumerate(ATTENTIONS):
        q, k, v = normal(1, heads, queries, 128), normal(2, fewer, keys, 128), normal(3, fewer, keys, 128)
        with row(f"{heads} heads, {queries} queries, {keys} keys, {causal}"):
            wanted = attended(q, k, v, causal)
            found, launch = attention_wgmma.attend(q, k, v, causal, policy=POLICIES[number % 3], seed=number)
            same(found, wanted)
            silent(launch)


def test_causal_attention_is_close_to_the_exact_one():
    q, k, v = normal(1, 1, 140, 128), normal(2, 1, 200, 128), normal(3, 1, 200, 128)
    found, _ = attention_wgmma.attend(q, k, v, causal=True, sanitizer="off")
    exact = q[0].astype(float) @ k[0].T.astype(float) / np.sqrt(128)
    exact[np.arange(200) > np.arange(140)[:, None] + 60] = -np.inf
    weights = np.exp(exact - exact.max(axis=1, keepdims=True))
    assert np.abs(found[0] - weights @ v[0].astype(float) / weights.sum(axis=1, keepdims=True)).max() < 2e-3


def test_values_behind_the_last_key_do_not_matter():
    """The copy engine fills the tile with zeros there, so no infinity of the next head comes in."""
    q, k, v = (normal(seed, 2, 50, 128) for seed in (1, 2, 3))
    v[1] = np.inf
    found, _ = attention_wgmma.attend(q, k, v, sanitizer="off")
    assert np.isfinite(found[0]).all()


def test_a_warpgroup_that_overwrites_p_too_early(monkeypatch):
    """P is an operand of a product that still runs: without the wait, pack writes into it."""
    a_wait = attention_wgmma.Warp.wgmma_wait_group
    monkeypatch.setattr(attention_wgmma.Warp, "wgmma_wait_group", lambda warp, pending: a_wait(warp, max(pending, 1)))
    q, k, v = (normal(seed, 1, keys, 128) for seed, keys in ((1, 128), (2, 256), (3, 256)))
    _, launch = attention_wgmma.attend(q, k, v, sanitizer="collect")
    assert "wgmma-wait-weak" in {report.rule for report in launch.reports}


@pytest.mark.parametrize(
    ("shapes", "causal", "message"),
    [
        ([(1, 8, 64), (1, 8, 64), (1, 8, 64)], False, "q must be float16 (heads, queries, 128), k and v (heads of k,"),
        ([(3, 8, 128), (2, 8, 128), (2, 8, 128)], False, "with a multiple of k's heads in q; got float16 (3, 8, 128)"),
        ([(1, 8, 128), (1, 8, 128), (1, 9, 128)], False, "got float16 (1, 8, 128), float16 (1, 8, 128), float16 (1, 9"),
        ([(1, 9, 128), (1, 8, 128), (1, 8, 128)], True, "as many keys as queries; got 8 keys and 9 queries, of which"),
    ],
)
def test_attention_that_cannot_be(shapes, causal, message):
    with pytest.raises(OperandError, match=re.escape(message)):
        attention_wgmma.attend(*(np.zeros(shape, np.float16) for shape in shapes), causal)


# ---------------------------------------------------------------------------------------------------- grouped fp8


def experts(sizes, n, k):
    """A, its scales, B, its scales, the sizes."""
    rng, blocks = np.random.default_rng(n), -(-k // 128)
    shapes = (sum(sizes), k), (len(sizes), n, k)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn) for shape in shapes)
    shapes = (len(a), blocks), (len(b), -(-n // 128), blocks)
    of_a, of_b = (rng.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes)
    return a, of_a, b, of_b, sizes


def scaled_products(a, scales_a, b, scales_b, sizes):
    """The documented order, group by group."""
    out, first = [], 0
    for group, size in enumerate(sizes):
        own, theirs = padded(a[first : first + size], 64, 128), padded(b[group], 128, 128)
        d = np.zeros((len(own), len(theirs)), np.float32)
        for step in range(own.shape[1] // 128):
            k = slice(128 * step, 128 * step + 128)
            part = tcemu.matmul(own[:, k], np.ascontiguousarray(theirs[:, k].T), instruction=grouped_fp8.PLAN.mma)
            rows = padded(scales_a[first : first + size, step], 64)
            d = scalar.fma(part, rows[:, None] * np.repeat(scales_b[group, :, step], 128), d)
        out.append(d[:size, : b.shape[1]])
        first += size
    return np.concatenate(out)


def test_groups_of_different_sizes(row):
    for number, (sizes, n, k) in enumerate((([70, 0, 130, 3], 200, 272), ([1], 8, 16), ([0, 128], 131, 400))):
        given = experts(sizes, n, k)
        with row(f"{sizes} {n} {k}"):
            found, launch = grouped_fp8.multiply(*given, policy=POLICIES[number], seed=number)
            same(found, scaled_products(*given))
            silent(launch)


def test_sums_in_f32_are_closer_than_those_of_the_tensor_core():
    a, _, b, _, _ = experts([64], 128, 1024)
    ones = np.ones((64, 8), np.float32), np.ones((1, 1, 8), np.float32)
    found, _ = grouped_fp8.multiply(a, ones[0], b, ones[1], [64], sanitizer="off")
    inside = tcemu.matmul(a, np.ascontiguousarray(b[0].T), instruction=grouped_fp8.PLAN.mma)
    exact = a.astype(float) @ b[0].T.astype(float)
    assert np.abs(found - exact).max() < np.abs(inside - exact).max() / 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("a", np.ones((4, 24), ml_dtypes.float8_e4m3fn), "with k a multiple of 16, whole units of 16 bytes"),
        ("a", np.ones((4, 32), np.float16), "both float8_e4m3fn"),
        ("scales_a", np.ones((4, 2), np.float32), "scales_a must be float32 (4, 1), one for each 128 elements"),
        ("scales_b", np.ones((2, 1), np.float32), "scales_b must be float32 (2, 1, 1), one for each 128 x 128"),
        ("sizes", [4], "sizes must be 2 whole numbers, the rows of each group, 4 in all; got [4]"),
        ("sizes", [5, -1], "sizes must be 2 whole numbers"),
        ("sizes", [3.0, 1.0], "sizes must be 2 whole numbers"),
    ],
)
def test_groups_that_cannot_be(name, value, message):
    given = dict(zip(("a", "scales_a", "b", "scales_b", "sizes"), experts([3, 1], 8, 32), strict=True))
    with pytest.raises(OperandError, match=re.escape(message)):
        grouped_fp8.multiply(**{**given, name: value})


# ---------------------------------------------------------------------------------------------------- paged decode


def cached(heads=10, fewer=2, splits=4):
    """Two sequences whose pages lie anywhere; what is behind a sequence's last key is infinite."""
    q = normal(1, 2, heads, 128)
    k, v = (normal(seed, 12, 16, fewer, 128) for seed in (2, 3))
    table = np.array([[3, 7, 1, 0, 11, 2], [5, 4, 9, 0, 0, 0]], np.int32)
    k[2, 10:] = v[2, 10:] = k[9, 1:] = v[9, 1:] = np.inf
    return q, k, v, table, np.array([90, 33], np.int32), splits


def decoded(q, k, v, table, lengths, splits):
    """The documented order: a split after the other, a page after the other, and the parts at the end."""
    out, group = np.zeros(q.shape, np.float16), q.shape[1] // k.shape[2]
    scale = attention_wgmma.SCALE
    for sequence, head in np.ndindex(len(q), k.shape[2]):
        own = padded(q[sequence, group * head : group * head + group], 16, 1)
        parts = []
        for split in range(splits):
            largest, total = np.full(16, -np.inf, np.float32), np.zeros((16, 4), np.float32)
            o = np.zeros((16, 128), np.float32)
            for page in range(split, -(-int(lengths[sequence]) // 16), splits):
                there = np.arange(16 * page, 16 * page + 16) < lengths[sequence]
                keys, values = (np.where(there[:, None], each[table[sequence, page], :, head], 0) for each in (k, v))
                s = tcemu.matmul(own, np.ascontiguousarray(keys.T), instruction=mma_pipeline.MMA)
                s[:, ~there] = -np.inf
                before, largest = largest, np.maximum(largest, s.max(axis=1))
                factor = scalar.ex2((before - largest) * scale)
                powers = scalar.ex2(scalar.fma(s, scale, (largest * -scale)[:, None]))
                pairs = powers.reshape(16, 2, 4, 2).sum(axis=3, dtype=np.float32)
                total = scalar.fma(total, factor[:, None], pairs[:, 0] + pairs[:, 1])
                o = tcemu.matmul(powers.astype(np.float16), values, o * factor[:, None], instruction=mma_pipeline.MMA)
            parts.append((largest, (total[:, 0] + total[:, 1]) + (total[:, 2] + total[:, 3]), o))
        most = np.max([part[0] for part in parts], axis=0)
        total, o = np.zeros(16, np.float32), np.zeros((16, 128), np.float32)
        for largest, part, sums in parts:
            factor = scalar.ex2((largest - most) * scale)
            total, o = scalar.fma(part, factor, total), scalar.fma(sums, factor[:, None], o)
        out[sequence, group * head : group * head + group] = (o / total[:, None]).astype(np.float16)[:group]
    return out


@pytest.mark.slow
def test_paged_decode(row):
    for number, given in enumerate((cached(), cached(splits=8), cached(heads=32), cached(heads=2))):
        with row(f"{given[0].shape[1]} heads, {given[-1]} splits"):
            found, launches = paged_decode.attend(*given, policy=POLICIES[number % 3], seed=number)
            same(found, decoded(*given))
            for launch in launches:
                silent(launch)


def test_a_decoding_warp_that_does_not_wait_for_the_other_lanes(monkeypatch):
    """Each lane waits for its own copies only; ldmatrix reads those of all."""
    monkeypatch.setattr(paged_decode.Warp, "bar_warp_sync", lambda warp: None)
    _, launches = paged_decode.attend(*cached(), policy="late", sanitizer="collect")
    assert "ldmatrix-unsynced" in {report.rule for report in launches[0].reports}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: np.ones((2, 10, 64), np.float16)}, "q must be float16 (sequences, heads, 128); got float16 (2, 10, 64)"),
        ({0: normal(1, 2, 34, 128)}, "1 to 16 heads of q share a head of k, because they are the rows of one mma.sync"),
        ({1: normal(1, 12, 32, 2, 128)}, "k must be float16 (pages, 16, heads of k, 128); got float16 (12, 32"),
        ({3: np.zeros((2, 6))}, "table must be int32 (sequences, pages of the longest); got float64 (2, 6)"),
        ({3: np.full((2, 6), 12, np.int32)}, "sequence 0 has 90 keys: it needs at least one, and table[0] must list"),
        ({4: np.array([0, 5], np.int32)}, "sequence 0 has 0 keys: it needs at least one"),
        ({4: np.array([90, 97], np.int32)}, "sequence 1 has 97 keys: it needs at least one, and table[1] must list th"),
        ({4: np.array([90], np.int32)}, "q, table and lengths have 2, 2 and 1 sequences"),
        ({5: 6}, "splits= must be a multiple of 4, the warps of a block; got 6"),
    ],
)
def test_decoding_that_cannot_be(change, message):
    given = list(cached())
    for place, value in change.items():
        given[place] = value
    with pytest.raises(OperandError, match=re.escape(message)):
        paged_decode.attend(*given)


# ---------------------------------------------------------------------------------------------------- W4A16


def quantised(m, n, k):
    """A, weights and scales."""
    rng = np.random.default_rng(m)
    scales = rng.uniform(0.01, 0.2, (k // 128, n)).astype(np.float16)
    return normal(m, m, k), rng.integers(-8, 8, (k, n)).astype(np.int8), scales


@pytest.mark.slow
def test_weights_of_four_bits(row):
    for number, (m, n, k) in enumerate(((70, 128, 384), (1, 64, 128), (64, 64, 640))):
        a, weights, scales = quantised(m, n, k)
        rounded = weights.astype(np.float16) * np.repeat(scales, 128, axis=0)
        with row(f"{m} {n} {k}"):
            found, launch = w4a16.multiply(a, weights, scales, policy=POLICIES[number], seed=number)
            same(found, tcemu.matmul(padded(a, 16, 1), rounded, instruction=w4a16.MMA)[:m])
            silent(launch)


def test_each_weight_is_converted_exactly():
    """All weights times scales from all over f16, subnormal ones too: a product with the unit matrix shows each."""
    weights = np.repeat(np.arange(128, dtype=np.int8)[:, None] % 16 - 8, 256, axis=1).astype(np.int8)
    scales = np.linspace(0, 0x6FFF, 256).astype(np.uint16).view(np.float16)[None]
    found, _ = w4a16.multiply(np.eye(128, dtype=np.float16), weights, scales, sanitizer="off")
    assert np.array_equal(found, (weights.astype(np.float16) * scales).astype(np.float32))


def test_packed_weights_can_be_read_back():
    """From the layout of the B operand in PTX's manual, without `packed`'s own arithmetic."""
    weights = quantised(1, 64, 128)[1]
    words = w4a16.packed(weights)
    layout = tcemu.parse(w4a16.MMA).fragments["b"].layout
    for lane, step, tile, slot in ((0, 0, 0, 0), (31, 3, 1, 3), (13, 2, 0, 1), (6, 1, 1, 2)):
        row, column = layout.position(lane, slot)
        nibble = w4a16.SHIFTS[4 * tile + slot]
        value = int(words[1, 2, lane, step]) >> nibble & 15
        assert value - 8 == weights[64 + 16 * step + row, 32 + 8 * tile + column]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: np.ones((4, 64), np.float16)}, "with k a multiple of 128, the elements that share a scale, and n of 64"),
        ({1: np.zeros((128, 64), np.int32)}, "the weights int8 (k, n)"),
        ({1: np.full((128, 64), 8, np.int8)}, "weights have 4 bits, from -8 to 7; got 8 to 8"),
        ({2: np.ones((2, 64), np.float16)}, "scales must be (1, 64), one for each 128 rows of a column; got (2, 64)"),
    ],
)
def test_weights_that_cannot_be(change, message):
    given = list(quantised(4, 64, 128))
    for place, value in change.items():
        given[place] = value
    with pytest.raises(OperandError, match=re.escape(message)):
        w4a16.multiply(*given)
