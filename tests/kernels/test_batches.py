"""Batches of instructions from registers into registers: what each arithmetic gives, beside numpy and plain chains."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples
from rows import rows

import tcemu
from tcemu.arithmetic import Operation, compute, find
from tcemu.instructions import target_named
from tcemu.instructions.mma_sp import k_of_stored
from tcemu.vectors.cases import cases

pytest.importorskip("numba")

import binary64

INTEGERS = "mma.sync.aligned.m16n8k{k}.row.col{clamp}.s32.{a}.{b}.s32"
SPARSE = "mma.sp.sync.aligned."


def values(rng, form, shape):
    """Any numbers of an integer type, as int64."""
    low = -(1 << form.mantissa) if form.signed else 0
    return rng.integers(low, 1 << form.mantissa, shape)


@rows("a b clamp", [(a, b, clamp) for a in ("s8", "u8") for b in ("s8", "u8") for clamp in ("", ".satfinite")])
def test_batches_of_integers(a, b, clamp):
    check_integers(INTEGERS.format(k=32, clamp=clamp, a=a, b=b), bool(clamp))


@rows("a b clamp", [(a, b, clamp) for a in ("s4", "u4") for b in ("s4", "u4") for clamp in ("", ".satfinite")])
def test_batches_of_small_integers(a, b, clamp):
    check_integers(INTEGERS.format(k=64, clamp=clamp, a=a, b=b), bool(clamp))


def check_integers(opcode, clamp, warps=40):
    mma, rng = tcemu.parse(opcode), np.random.default_rng(len(opcode))
    a, b = (values(rng, mma.types[role], (warps, *mma.fragments[role].shape)) for role in "ab")
    c = rng.integers(-(1 << 31), 1 << 31, (warps, *mma.fragments["c"].shape))
    c[: warps // 2] = np.where(c[: warps // 2] < 0, -(1 << 31), (1 << 31) - 1)
    given = [
        mma.fragments[role].pack(mma.types[role].matrix(mma.types[role].encode(matrix)))
        for role, matrix in (("a", a), ("b", b), ("c", c))
    ]
    d = mma.fragments["d"].unpack(tcemu.run(mma, *given, target="sm_90a"))
    want = a @ b + c
    want = np.clip(want, -(1 << 31), (1 << 31) - 1) if clamp else want.astype(np.int32)
    assert np.array_equal(d, want.astype(np.int32))


def test_integer_sums_that_no_float32_holds():
    depth = 3000
    model = find(90, "mma", "m16n8k32", "u8", "u8", "s32", "s32").model
    a, b = np.full((1, 3, depth), 255, np.uint8), np.full((1, depth, 5), 253, np.uint8)
    b[:, :17] = 254
    d = compute(Operation(model, "u8", "u8", "s32", "s32", depth), a, b, np.zeros((1, 3, 5), np.uint32))
    assert (d == 255 * (254 * 17 + 253 * (depth - 17))).all()


FORMS = [f"mma.sync.aligned.m{m}n8k{k}.row.col{{}}.f64.f64.f64.f64" for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))]
#: By the number of the mode.
ROUNDINGS = ("", ".rz", ".rm", ".rp")


@examples(40)
@given(st.data())
def test_batches_of_f64_with_any_bits(data):
    opcode = data.draw(st.sampled_from(FORMS)).format(data.draw(st.sampled_from(ROUNDINGS)))
    mma, rng = tcemu.parse(opcode), np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    odd = data.draw(st.sampled_from([0.0, 0.02, 0.3]))
    matrices = []
    for role in "abc":
        shape = (20, *mma.fragments[role].shape)
        near = rng.standard_normal(shape).view(np.uint64)
        bits = rng.integers(0, 1 << 64, shape, np.uint64)
        bits |= np.where(rng.random(shape) < 0.5, np.uint64(0x7FF << 52), np.uint64(0))
        matrices.append(np.where(rng.random(shape) < odd, bits, near))
    registers = [mma.fragments[role].pack(matrix) for role, matrix in zip("abc", matrices, strict=True)]
    d = mma.fragments["d"].unpack_patterns(tcemu.run(mma, *registers, target="sm_90a"))
    want = np.empty_like(d)
    mode = ["", "rz", "rm", "rp"].index(mma.words.get("rounding") or "")
    binary64.chain64(*matrices, want, mode)
    assert np.array_equal(d, want)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_the_processor_rounds_to_nearest_afterwards(mode):
    """In a directed rounding the processor computes batches and products itself, on all cores."""
    mma = tcemu.parse(f"mma.sync.aligned.m16n8k8.row.col.{mode}.f64.f64.f64.f64")
    rng = np.random.default_rng(0)
    matrices = [rng.standard_normal((3000, *mma.fragments[role].shape)) for role in "abc"]
    registers = [mma.fragments[role].pack(each) for role, each in zip("abc", matrices, strict=True)]
    nearest = tcemu.parse(str(mma).replace(f".{mode}", ""))
    before = tcemu.run(nearest, *registers, target="sm_90a")
    large, tiny = np.float64(1.0), np.float64(2.0**-54)
    for work in (
        lambda: tcemu.run(mma, *registers, target="sm_90a"),
        lambda: tcemu.matmul(matrices[0].reshape(-1, 8)[:512], matrices[1][0], instruction=mma, target="sm_90a"),
    ):
        work()
        with ThreadPoolExecutor(4) as pool:
            sums = [*pool.map(lambda sign: float(large + sign * tiny), [1, -1] * 20)]
        assert {*sums, large + tiny, large - tiny} == {1.0}
    assert (tcemu.run(mma, *registers, target="sm_90a") != before).any()
    assert np.array_equal(tcemu.run(nearest, *registers, target="sm_90a"), before)  # on the same threads


def check_small(fields, least, rng, most=0x7FE):
    """A batch with exponent fields up to those of A and of B, and from that of C to the most, beside plain chains."""
    mode = int(rng.integers(4))
    mma = tcemu.parse(rng.choice(FORMS).format(ROUNDINGS[mode]))
    matrices = []
    for role, field in zip("abc", fields, strict=True):
        shape = (8, *mma.fragments[role].shape)
        exponents = rng.integers(field, most + 1, shape) if role == "c" else rng.integers(0, field + 1, shape)
        exponents[:, 0], fraction = field, rng.integers(0, 1 << 52, shape) * (rng.random(shape) < 0.7)
        bits = (exponents << 52 | fraction).astype(np.uint64)
        matrices.append(np.where(bits == 0, least, bits) | rng.integers(0, 2, shape).astype(np.uint64) << 63)
    registers = [mma.fragments[role].pack(matrix) for role, matrix in zip("abc", matrices, strict=True)]
    compare(mma, registers, matrices, mode)


def compare(mma, registers, matrices, mode):
    """A batch beside chains that integers compute."""
    want = np.empty(matrices[2].shape, np.uint64)
    binary64.chain64(*matrices, want, mode)
    d = mma.fragments["d"].unpack_patterns(tcemu.run(mma, *registers, target="sm_90a"))
    assert np.array_equal(d, want)


@examples(40)
@given(st.integers(0, 1 << 32), st.integers(-3, 3), st.sampled_from([0, 1, 2, 3, 500, 1000]), st.booleans())
def test_batches_of_f64_whose_products_hardly_matter(seed, past, of_c, zeros):
    """Where products of A and B are about half the distance of C's elements to the next, just one more or less."""
    rng, together = np.random.default_rng(seed), of_c + 967 + past
    of_a = int(rng.integers(max(0, together - 0x7FE), min(together, 0x7FE) + 1))
    check_small((of_a, together - of_a, of_c), np.uint64(not zeros), rng)


@examples(40)
@given(st.integers(0, 1 << 32), st.integers(-4, 4), st.integers(0, 3), st.booleans())
def test_batches_of_f64_whose_products_are_about_the_smallest_number(seed, past, of_c, zeros):
    """Where products are large enough, or just not, to change a number; if not, they give zeros their signs."""
    rng, together = np.random.default_rng(seed), 968 + past
    of_a = int(rng.integers(0, together + 1))
    check_small((of_a, together - of_a, 0), np.uint64(not zeros), rng, most=of_c)


def near_the_smallest(rng, shape, kind):
    """Patterns of one kind, with any sign: subnormal numbers, those a little above, factors with few bits, all normal
    ones, zeros among them.
    """
    fraction = rng.integers(0, 1 << 52, shape) & -(1 << rng.integers(0, 53, shape))
    ranges = {"subnormal": (0, 0), "above": (0, 3), "near 1": (1015, 1030), "few": (1020, 1026), "any": (0, 2046)}
    low, high = ranges[kind]
    exponents = rng.integers(low, high + 1, shape)
    if kind == "few":
        fraction &= -(1 << 50)
    bits = (exponents << 52 | fraction) * (rng.random(shape) < 0.95)
    return bits.astype(np.uint64) | rng.integers(0, 2, shape).astype(np.uint64) << 63


@examples(200)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from(["subnormal", "above", "any"]),
    st.sampled_from(["near 1", "few", "subnormal", "any"]),
    st.sampled_from(["subnormal", "above", "few"]),
    st.booleans(),
    st.sampled_from(range(4)),
)
def test_batches_of_f64_that_are_rounded_as_subnormal_numbers(seed, of_a, of_b, of_c, cancel, mode):
    """Sums that are subnormal, just normal, half way between two numbers, or left over from much larger ones."""
    rng = np.random.default_rng(seed)
    mma = tcemu.parse(rng.choice(FORMS).format(ROUNDINGS[mode]))
    kinds = [(of_a, of_b), (of_b, of_a)][int(rng.integers(2))]
    a, b, c = (
        near_the_smallest(rng, (8, *mma.fragments[role].shape), kind)
        for role, kind in zip("abc", (*kinds, of_c), strict=True)
    )
    if cancel:  # C is about -A B for the first k
        with np.errstate(all="ignore"):
            c = (-a[:, :, :1].view(np.float64) * b[:, :1].view(np.float64)).view(np.uint64)
        c[(c & np.uint64(0x7FF << 52)) == np.uint64(0x7FF << 52)] = 0
    registers = [mma.fragments[role].pack(matrix) for role, matrix in zip("abc", (a, b, c), strict=True)]
    compare(mma, registers, (a, b, c), mode)


SPARSE_FORMS = [
    "m16n8k32.row.col.f32.f16.f16.f32",
    "m16n8k16.row.col.f32.bf16.bf16.f32",
    "m16n8k16.row.col.f32.tf32.tf32.f32",
    "m16n8k64.row.col.f32.e4m3.e5m2.f32",
    "m16n8k64.row.col.s32.s8.u8.s32",
    "m16n8k128.row.col.satfinite.s32.s4.u4.s32",
]


@rows("form", SPARSE_FORMS)
def test_a_sparse_batch_is_its_matrices(form):
    """The metadata in registers and the rows of B that it selects give the same results."""
    mma, rng = tcemu.parse(SPARSE + form), np.random.default_rng(len(form))
    fragments, pattern = mma.fragments, mma.facts.pattern
    a, b, c = (
        rng.integers(0, 1 << 32, (40, fragments[role].lanes, fragments[role].registers), np.uint64).astype(np.uint32)
        for role in "abc"
    )
    codes = rng.choice(sorted(pattern.positions), (40, 32, 8)).astype(np.uint32)
    metadata = np.bitwise_or.reduce(codes << (4 * np.arange(8, dtype=np.uint32)), axis=-1)
    for selector in range(fragments["e"].shape[0]):
        found = tcemu.run(mma, a, b, c, metadata, selector, target="sm_90a")
        matrices = [fragments[role].unpack_patterns(each) for role, each in (("a", a), ("b", b), ("c", c))]
        places = k_of_stored(mma, metadata, selector)
        want = compute(mma.operation(target_named("sm_90a")), *matrices, places)
        assert np.array_equal(fragments["d"].unpack_patterns(found), want), selector


SMALL = "m16n8k32.row.col.kind::f8f6f4.f32.{0}.{0}.f32"
FEW_BITS = [
    *((form, on, "m16n8k32.row.col.f32.{0}.{0}.f32") for form in ("e4m3", "e5m2") for on in ("sm_89", "sm_90a")),
    *((form, "sm_120a", SMALL) for form in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")),
]


def finite(form):
    """All patterns of finite numbers, and their values."""
    patterns = np.arange(1 << form.bits, dtype=form.storage) << form.padding
    numbers = form.decode(patterns)
    return patterns[np.isfinite(numbers)], numbers[np.isfinite(numbers)]


@rows("name, target, shape", FEW_BITS)
def test_every_finite_number_of_few_bits_in_a_batch(name, target, shape):
    """Times one it is itself, in A and in B; no sum keeps the sign of a zero."""
    mma = tcemu.parse(f"mma.sync.aligned.{shape.format(name)}", target)
    form, fragments = mma.types["a"], mma.fragments
    patterns, numbers = finite(form)
    one = form.encode(1.0)
    for role, other in (("a", "b"), ("b", "a")):
        given = {r: np.zeros((len(patterns), *fragments[r].shape), form.storage) for r in "ab"}
        first = {"a": np.s_[:, :, 0], "b": np.s_[:, 0, :]}
        given[role][first[role]], given[other][first[other]] = patterns[:, None], one
        a, b = (fragments[r].pack(form.matrix(given[r])) for r in "ab")
        c = fragments["c"].pack(np.zeros((len(patterns), 16, 8), np.float32))
        found = fragments["d"].unpack(tcemu.run(mma, a, b, c, target=target))
        want = np.broadcast_to((numbers + 0.0).astype(np.float32)[:, None, None], found.shape)
        assert np.array_equal(found.view(np.uint32), want.view(np.uint32))


@rows("name", ["e4m3", "e5m2"])
def test_every_finite_number_of_few_bits_at_every_place_of_a_sparse_batch(name):
    """Row k of B is 2^(k mod 4): the product says where the metadata puts the stored element, of chunk 3 for once."""
    mma = tcemu.parse(f"{SPARSE}m16n8k64.row.col.f32.{name}.{name}.f32", "sm_90a")
    form, fragments, pattern = mma.types["a"], mma.fragments, mma.facts.pattern
    patterns, numbers = finite(form)
    b = fragments["b"].pack(form.matrix(form.encode(np.broadcast_to(2.0 ** (np.arange(64) % 4)[:, None], (64, 8)))))
    b, c = np.repeat(b[None], len(patterns), 0), np.zeros((len(patterns), 32, 4), np.float32).view(np.uint32)
    for code, places in pattern.positions.items():
        metadata = np.full((len(patterns), 32), code * 0x11111111, np.uint32)
        for stored, place in enumerate(places):
            a = np.zeros((len(patterns), 16, 32), form.storage)
            a[:, :, 3 * pattern.stored + stored] = patterns[:, None]
            words = fragments["a"].pack(form.matrix(a))
            found = fragments["d"].unpack(tcemu.run(mma, words, b, c, metadata, 0, target="sm_90a"))
            want = np.broadcast_to(((numbers + 0.0) * 2.0**place).astype(np.float32)[:, None, None], found.shape)
            assert np.array_equal(found.view(np.uint32), want.view(np.uint32)), (code, stored)


LARGE_SUMS = [
    (name + ".sync.aligned." + form, target)
    for form, target in (
        ("m16n8k{k}.row.col.f32.e4m3.e4m3.f32", "sm_89"),
        ("m16n8k{k}.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
        ("m16n8k{k}.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32", "sm_120a"),
        ("m16n8k{k}.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0", "sm_120a"),
    )
    for name in ("mma", "mma.sp::ordered_metadata")
]


@rows("opcode target", LARGE_SUMS)
@pytest.mark.parametrize("sign", [0, 0x80808080])
@pytest.mark.parametrize("addend", [0, 1 << 21, -(1 << 21)])
def test_sums_of_the_largest_significands(opcode, target, sign, addend):
    """Products of 240 with itself have one exponent, so that nothing is cut off: the sum is that of integers."""
    mma = tcemu.parse(opcode.format(k=64 if ".sp" in opcode else 32), target)
    a, b, c, *others = next(cases(mma, "near", 20)).operands
    a, b = np.full_like(a, 0x77777777 ^ sign), np.full_like(b, 0x77777777)
    c = np.full(c.shape, addend, np.float32).view(np.uint32)
    if "block_scale" in opcode:  # all scales 1, behind the metadata and the selector of a sparse form
        others = [np.full_like(each, 0x7F7F7F7F) if i in (len(others) - 4, len(others) - 2) else each
                  for i, each in enumerate(others)]  # fmt: skip
    d = tcemu.run(mma.opcode, a, b, c, *others, target=target)
    assert (d.view(np.float32) == (-1 if sign else 1) * 32 * 240 * 240 + addend).all()
