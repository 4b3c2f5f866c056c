"""Batches of every class of inputs, beside the plain-Python reference."""

from itertools import product

import numpy as np
import pytest
from quick import DAY, some, spread

import tcemu
from tcemu import arithmetic
from tcemu.arithmetic import reference
from tcemu.errors import OperandError
from tcemu.instructions import target_named
from tcemu.instructions.mma_sp import k_of_stored, pattern_of

pytest.importorskip("numba")

MMA = "mma.sync.aligned."
F8 = MMA + "m16n8k32.row.col."
WMMA = "wmma.mma.sync.aligned."
CASES = {
    "tf32": (MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", "sm_90a"),
    "tf32 sm_80": (MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80"),
    "tf32 k4": (MMA + "m16n8k4.row.col.f32.tf32.tf32.f32", "sm_90a"),
    "f16": (MMA + "m16n8k16.row.col.f32.f16.f16.f32", "sm_90a"),
    "f16 k8": (MMA + "m16n8k8.row.col.f32.f16.f16.f32", "sm_75"),
    "f16 into f16": (MMA + "m16n8k16.row.col.f16.f16.f16.f16", "sm_80"),
    "bf16": (MMA + "m16n8k16.row.col.f32.bf16.bf16.f32", "sm_90a"),
    "e4m3": (F8 + "f32.e4m3.e4m3.f32", "sm_90a"),
    "e5m2 e4m3": (F8 + "f32.e5m2.e4m3.f32", "sm_90a"),
    "e4m3 k16": (MMA + "m16n8k16.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    "e4m3 sm_89": (F8 + "f32.e4m3.e4m3.f32", "sm_89"),
    "e4m3 into f16": (F8 + "f16.e4m3.e4m3.f16", "sm_90a"),
    "e3m2 e2m1": (F8 + "kind::f8f6f4.f32.e3m2.e2m1.f32", "sm_120a"),
    "wmma f16": (WMMA + "row.row.m16n16k16.f32.f32", "sm_90a"),
    "wmma f16 into f16": (WMMA + "col.row.m16n16k16.f16.f16", "sm_75"),
    "wmma bf16": (WMMA + "row.row.m16n16k16.f32.bf16.bf16.f32", "sm_80"),
    "wmma m32n8k16": (WMMA + "row.col.m32n8k16.f32.f32", "sm_90a"),
    "wmma m8n32k16": (WMMA + "col.row.m8n32k16.f32.f32", "sm_90a"),
    "wmma m32n8k16 bf16": (WMMA + "row.row.m32n8k16.f32.bf16.bf16.f32", "sm_90a"),
    "wmma m8n32k16 bf16": (WMMA + "row.row.m8n32k16.f32.bf16.bf16.f32", "sm_80"),
    "wmma m32n8k16 into f16": (WMMA + "row.row.m32n8k16.f16.f16", "sm_90a"),
    "wmma m8n32k16 into f16": (WMMA + "row.col.m8n32k16.f16.f16", "sm_75"),
    "wmma sm_70 row.col": (WMMA + "row.col.m16n16k16.f32.f32", "sm_70"),
    "wmma sm_70 row.row": (WMMA + "row.row.m16n16k16.f32.f32", "sm_70"),
    "wmma sm_70 col.row": (WMMA + "col.row.m16n16k16.f32.f32", "sm_70"),
    "wmma sm_70 into f16": (WMMA + "row.row.m16n16k16.f16.f16", "sm_70"),
    "m8n8k4 row.row": (MMA + "m8n8k4.row.row.f32.f16.f16.f32", "sm_70"),
    "m8n8k4 row.col": (MMA + "m8n8k4.row.col.f32.f16.f16.f32", "sm_75"),
    "m8n8k4 col.row": (MMA + "m8n8k4.col.row.f32.f16.f16.f32", "sm_70"),
    "m8n8k4 col.col": (MMA + "m8n8k4.col.col.f32.f16.f16.f32", "sm_70"),
    "m8n8k4 row.row into f16": (MMA + "m8n8k4.row.row.f16.f16.f16.f16", "sm_70"),
    "m8n8k4 row.col into f16": (MMA + "m8n8k4.row.col.f16.f16.f16.f16", "sm_70"),
    "m8n8k4 col.row into f16": (MMA + "m8n8k4.col.row.f16.f16.f16.f16", "sm_75"),
    "m8n8k4 col.col into f16": (MMA + "m8n8k4.col.col.f16.f16.f16.f16", "sm_70"),
    "wmma tf32": (WMMA + "row.col.m16n16k8.f32.tf32.tf32.f32", "sm_90a"),
}
SP = "mma.sp::ordered_metadata.sync.aligned."
SPARSE = {
    "sparse f16": (SP + "m16n8k32.row.col.f32.f16.f16.f32", "sm_90a"),
    "sparse f16 k16 into f16": (SP + "m16n8k16.row.col.f16.f16.f16.f16", "sm_80"),
    "sparse bf16": (SP + "m16n8k32.row.col.f32.bf16.bf16.f32", "sm_80"),
    "sparse tf32": (SP + "m16n8k16.row.col.f32.tf32.tf32.f32", "sm_90a"),
    "sparse tf32 k8": (SP + "m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80"),
    "sparse e4m3": (SP + "m16n8k64.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    "sparse e5m2 e4m3 sm_89": (SP + "m16n8k64.row.col.f32.e5m2.e4m3.f32", "sm_89"),
    "sparse e3m2 e2m1": (SP + "m16n8k64.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32", "sm_120a"),
}
KINDS = ["near", "bits", "NaN", "zeros", "all zeros", "subnormal", "large", "wide", "uneven", "rare"]
#: Chains of float32 multiply-adds, on targets without tensor cores for the instruction.
CHAINED = {
    f"m8n8k4 {layouts} {d} {target}": (MMA + f"m8n8k4.{layouts}.{d}.f16.f16.{d}", target)
    for layouts, d, target in (
        ("row.col", "f32", "sm_90a"), ("col.row", "f32", "sm_80"), ("row.row", "f16", "sm_90a"),
        ("col.col", "f16", "sm_120a"),
    )
}  # fmt: skip
#: Warps: two times as many as the kernel computes together, and some.
WARPS = 19
#: Of each warp, so many outputs are compared.
OUTPUTS = 9


def prepared(name):
    """The instruction on its target, and its operation."""
    opcode, target = (CASES | CHAINED)[name]
    on = target_named(target)
    found = tcemu.parse(opcode, target).on(on)
    return found, found.operation(on)


def patterns(rng, form, kind, shape, k=0):
    """Patterns of a class of inputs; k: that of each element.

    In "rare", one element in some hundred is NaN, infinite, subnormal or far away. In "uneven", those of the upper two
    bytes of a word are far larger than others.
    """
    with np.errstate(over="ignore"):
        found = form.encode(rng.standard_normal(shape)).astype(np.int64)
    any_bits = rng.integers(0, 1 << form.bits, shape) << form.padding
    if kind == "bits":
        return any_bits
    if kind == "rare":
        return np.where(rng.random(shape) < 0.003, any_bits, found)
    if kind == "NaN" and form.has_nan:
        return np.where(rng.random(shape) < 0.02, form.encode(np.nan), found)
    if kind == "infinite":
        return np.where(rng.random(shape) < 0.02, form.encode(np.inf), found)
    if kind == "zeros":
        zeros = form.encode(np.where(rng.random(shape) < 0.5, -0.0, 0.0)).astype(np.int64)
        return np.where(rng.random(shape) < 0.7, zeros, found)
    if kind == "all zeros":
        return form.encode(np.where(rng.random(shape) < 0.7, -0.0, 0.0)).astype(np.int64)
    if kind == "subnormal":
        return np.where(rng.random(shape) < 0.3, any_bits & (((1 << form.mantissa) - 1) << form.padding), found)
    if kind == "large":
        most = float(form.largest)
        return form.encode(np.clip(32 * rng.standard_normal(shape), -most, most)).astype(np.int64)
    if kind in ("wide", "uneven"):  # sums of bytes are short, or just not: some bits are far below others
        size = 2.0 ** rng.uniform(-9, rng.uniform(0, 6), shape)
        if kind == "uneven":
            size = np.where(k % 4 < 2, 2.0 ** rng.uniform(-9, -6, shape), size)
        return form.encode(np.where(rng.random(shape) < 0.5, -size, size)).astype(np.int64)
    return found


def operands(rng, found, kinds, warps):
    """Patterns of A, B and C, and their registers; every warp has a kind of its own."""
    matrices, registers = {}, []
    for role in "abc":
        form, shape = found.types[role], found.fragments[role].shape
        k = {"a": np.arange(shape[-1]), "b": np.arange(shape[-2])[:, None], "c": np.array(0)}[role]
        each = [patterns(rng, form, kinds[warp % len(kinds)], shape, k) for warp in range(warps)]
        matrices[role] = np.stack(each).astype(form.storage)
        registers.append(found.fragments[role].pack(form.matrix(matrices[role])))
    return matrices, registers


def check(name, kinds, seed):
    """Some outputs of each warp against the reference's."""
    found, operation = prepared(name)
    rng = np.random.default_rng(seed)
    matrices, registers = operands(rng, found, kinds, WARPS)
    d = found.fragments["d"].read(tcemu.run(found, *registers, target=(CASES | CHAINED)[name][1]).reshape(WARPS, -1))
    d = d.reshape(WARPS, *found.fragments["d"].shape)
    qualifiers = dict(operation.qualifiers)
    for warp in range(WARPS):
        for _ in range(OUTPUTS):
            *which, m, n = (int(rng.integers(size)) for size in d.shape[1:])
            a, b, c = (matrices[role][(warp, *which)] for role in "abc")
            row, column = a[m].tolist(), b[:, n].tolist()
            want = reference.dot(operation.model, row, column, int(c[m, n]), operation.formats, qualifiers)
            assert int(d[(warp, *which, m, n)]) == want, (kinds[warp % len(kinds)], warp, *which, m, n)


def some_kinds(names):
    """Each name with three of the classes; which ones, changes from name to name and every day."""
    for number, name in enumerate(names):
        for kind in spread(KINDS, 4, first=number + DAY):
            yield f"{name}: {kind}", name, kind


def test_a_batch_of_a_class(row):
    """Whole batches of one class; `test_warps_of_many_classes_side_by_side` asks every class of every name."""
    for what, name, kind in some(some_kinds([*CASES, *CHAINED]), 8):
        with row(what):
            check(name, [kind], len(name + kind))


@pytest.mark.parametrize("name", CHAINED)
@pytest.mark.parametrize("kind", ["near", "bits", "rare", "zeros", "all zeros"])
def test_a_matrix_product_by_chains(name, kind):
    """Sides that are no multiples of a block's."""
    found, operation = prepared(name)
    # The sum of zeros is -0 only if all are, for one instruction.
    rng, k = np.random.default_rng(len(name)), 4 if kind == "all zeros" else 12
    a, b = (patterns(rng, found.types[role], kind, shape) for role, shape in (("a", (37, k)), ("b", (k, 83))))
    c = patterns(rng, found.types["c"], kind, (37, 83)).astype(found.types["c"].storage)
    a, b = a.astype(np.uint16), b.astype(np.uint16)
    d = arithmetic.matmul(operation, a, b, c)
    for m, n in product(range(0, 37, 4), range(0, 83, 3)):
        want = int(c[m, n])
        for step in range(0, k, 4):
            row, column = a[m, step : step + 4].tolist(), b[step : step + 4, n].tolist()
            want = reference.dot(operation.model, row, column, want, operation.formats, {})
        assert int(d[m, n]) == want, (m, n)


def legal_metadata(rng, found, warps=WARPS):
    """Registers of random metadata."""
    codes = rng.choice([code for code, _ in pattern_of(found).rows], (warps, 32, 8)).astype(np.uint32)
    return np.bitwise_or.reduce(codes << (4 * np.arange(8, dtype=np.uint32)), axis=-1)


def check_sparse(name, kinds, seed):
    """The same of a sparse form, with random metadata and each selector: the rows of B that are met, one by one."""
    opcode, target = SPARSE[name]
    found = tcemu.parse(opcode, target).on(target_named(target))
    operation = found.operation(target_named(target))
    rng = np.random.default_rng(seed)
    for selector in range(found.fragments["e"].layout.shape[0]):
        matrices, registers = operands(rng, found, kinds, WARPS)
        metadata = legal_metadata(rng, found)
        d = tcemu.run(found, *registers, metadata, selector, target=target)
        d = found.fragments["d"].read(d.reshape(WARPS, -1)).reshape(WARPS, *found.fragments["d"].shape)
        places = k_of_stored(found, metadata, selector)
        for warp in range(WARPS):
            for _ in range(OUTPUTS):
                m, n = (int(rng.integers(size)) for size in d.shape[1:])
                row, column = matrices["a"][warp, m].tolist(), matrices["b"][warp, places[warp, m], n].tolist()
                c, model = int(matrices["c"][warp, m, n]), operation.model
                want = reference.dot(model, row, column, c, operation.formats, dict(operation.qualifiers))
                assert int(d[warp, m, n]) == want, (kinds[warp % len(kinds)], warp, m, n, selector)


def test_a_sparse_batch_of_a_class(row):
    for what, name, kind in some(some_kinds(SPARSE), 4):
        with row(what):
            check_sparse(name, [kind], len(name + kind))


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_warps_of_many_classes_side_by_side(name):
    check_sparse(name, ["near", "near", "zeros", "large", "near", "wide", "NaN", "subnormal", "rare"], len(name))


@pytest.mark.parametrize("name", SPARSE)
def test_metadata_of_a_batch_that_is_illegal(name):
    """The chunk of one warp, one lane."""
    opcode, target = SPARSE[name]
    found = tcemu.parse(opcode, target).on(target_named(target))
    rng = np.random.default_rng(0)
    _, registers = operands(rng, found, ["near"], WARPS)
    legal = np.full((WARPS, 32), pattern_of(found).rows[0][0] * 0x11111111, np.uint32)
    tcemu.run(found, *registers, legal, 0, target=target)
    for chunk in (0, 3):
        metadata = legal.copy()
        metadata[11, 4] &= ~np.uint32(15 << 4 * chunk)
        with pytest.raises(OperandError, match="warp 11"):
            tcemu.run(found, *registers, metadata, 0, target=target)


@pytest.mark.parametrize("name", [*CASES, *CHAINED])
def test_warps_of_many_classes_side_by_side(name):
    check(name, ["near", "near", "rare", "zeros", "large", "NaN", "near", "wide", "bits", "subnormal", "all zeros",
                 "uneven"], len(name))  # fmt: skip


def at_places(name, kinds, at):
    """D of a batch whose warps have these kinds, and of the warps `at`, each in a call of its own."""
    opcode, target = (CASES | SPARSE)[name]
    found = tcemu.parse(opcode, target).on(target_named(target))
    rng = np.random.default_rng(0)
    _, registers = operands(rng, found, kinds, len(kinds))
    others = [legal_metadata(rng, found, len(kinds))] if found.sparse else []
    given, last = [*registers, *others], [0] if found.sparse else []
    whole = tcemu.run(found, *given, *last, target=target)
    alone = [tcemu.run(found, *(each[i : i + 1] for each in given), *last, target=target) for i in at]
    return whole[list(at)], np.concatenate(alone)


@pytest.mark.parametrize("name", [*CASES, *SPARSE])
def test_a_warp_gives_the_same_alone(name):
    """All outputs of warps of all classes, computed together and one by one."""
    together, alone = at_places(name, 2 * KINDS, range(2 * len(KINDS)))
    assert np.array_equal(together, alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["f16", "wmma bf16", "bf16"])
def test_a_warp_with_infinities_among_many(name):
    """It changes none of its neighbours, whether they share a thread's work or not."""
    kinds = ["near"] * 1500
    near = []
    for at in (0, 1100, 1499):
        kinds[at] = "infinite"
        near += [i for i in range(at - 9, at + 10) if 0 <= i < len(kinds)]
    together, alone = at_places(name, kinds, near)
    assert np.array_equal(together, alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tf32", "e4m3", "wmma f16"])
def test_threads_give_what_one_gives(name):
    """Many warps, and the same ones a few at a time, which no thread shares."""
    found, _ = prepared(name)
    kinds = ["near", "near", "NaN", "near", "rare"]
    _, registers = operands(np.random.default_rng(1), found, [kinds[i // 100 % 5] for i in range(3000)], 3000)
    whole = tcemu.run(found, *registers, target=CASES[name][1])
    parts = [tcemu.run(found, *(each[i : i + 500] for each in registers), target=CASES[name][1])
             for i in range(0, 3000, 500)]  # fmt: skip
    assert np.array_equal(whole, np.concatenate(parts))
