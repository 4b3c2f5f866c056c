"""Results: the reference against fractions, kernels against the reference, and inputs that distinguish rules."""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from exact import FIELDS, exact
from hypothesis import given
from hypothesis import strategies as st
from quick import DAY, spread

import tcemu
from tcemu import ArithmeticUnknown, OperandError, formats
from tcemu.arithmetic import ROWS, FmaChain, FmaGroups, FusedSums, IntegerDot, compute, dot, find, fused_sum
from tcemu.arithmetic.arrays import fma32
from tcemu.arithmetic.ieee import fma_nearest
from tcemu.arithmetic.table import Row
from tcemu.errors import TableError
from tcemu.formats import lookup, unpack
from tcemu.instructions import TARGETS, target_named
from tcemu.instructions.mma import FAMILY
from tcemu.vectors import CLASSES, classes, matrices, registers

VARIANTS = {instruction.opcode: instruction for _, instruction in FAMILY.variants}
HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


@pytest.fixture
def reference_only(monkeypatch):
    monkeypatch.setattr("tcemu.backend._State.chosen", "reference")


# Fractions ------------------------------------------------------------------------------------------------------------
# The same rules once more, on exact rational numbers and without a bit of the package: exact.py.

SUMS = {
    (row.model, a, b, d): min(row.architectures)
    for row in ROWS
    if isinstance(row.model, FusedSums) and row.model.addend == "first"
    for a in sorted(row.a)
    for b in sorted(row.b)
    for d in sorted(row.d)
}
DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8}


@st.composite
def sums(draw):
    """A fused sum of the table, with patterns whose exponents are usually close to each other."""
    model, a, b, d = draw(st.sampled_from(sorted(SUMS, key=repr)))
    depth = draw(st.sampled_from([4, DEPTHS.get(a, 32)])) if model.block != 4 else draw(st.sampled_from([4, 8]))

    def patterns(name, count):
        exponent_bits, mantissa_bits, ignored = FIELDS[name]
        top = (1 << exponent_bits) - 2
        middle, width = draw(st.integers(0, top)), draw(st.sampled_from([0, 2, 6, 30, 300]))
        field = st.integers(max(0, middle - width), min(top, middle + width))
        below = st.one_of(st.integers(0, (1 << mantissa_bits) - 1), st.sampled_from([0, 1, (1 << mantissa_bits) - 1]))
        made = st.builds(
            lambda s, e, m: (s << (exponent_bits + mantissa_bits) | e << mantissa_bits | m) << ignored,
            st.booleans(),
            field,
            below,
        )
        return draw(st.lists(st.one_of(made, made, made, st.just(0)), min_size=count, max_size=count))

    c = model.via or d
    return model, {"a": a, "b": b, "c": c, "d": d}, patterns(a, depth), patterns(b, depth), patterns(c, 1)[0]


@given(sums())
def test_the_reference_is_what_fractions_say(case):
    model, names, a, b, c = case
    expected = exact(model, names, a, b, c)
    if expected is None:
        return
    table = {role: lookup(name) for role, name in names.items()}
    assert dot(model, a, b, c, table, {}) == expected


def test_every_fused_sum_of_the_table_is_compared():
    assert {model for model, *_ in SUMS} | {
        row.model for row in ROWS if getattr(row.model, "addend", "") == "last"
    } == {row.model for row in ROWS if isinstance(row.model, FusedSums)}


def test_a_fused_sum_lies_open():
    """2^13 * 2^14 + 1 * 1 - 2^14 * 2^13 with 25 fraction bits: the one is cut off, and the steps show that."""
    f16, model = lookup("f16"), find(90, "mma", "m16n8k16", "f16", "f16", "f32", "f32").model
    a, b = (
        [unpack(f16, int(f16.encode(x))) for x in xs] for xs in ((2.0**13, 1.0, -(2.0**14)), (2.0**14, 1.0, 2.0**13))
    )
    opened = fused_sum(
        model, [(k, x, y) for k, (x, y) in enumerate(zip(a, b, strict=True))], unpack(lookup("f32"), 0), lookup("f32")
    )
    assert (opened.largest, opened.fraction, opened.total, opened.result, opened.special) == (27, 25, 0, 0, "")
    assert [term.k for term in opened.terms] == [0, 1, 2, None]
    assert [term.cut for term in opened.terms] == [False, True, False, False]
    assert [term.kept for term in opened.terms] == [1 << 25, 0, -(1 << 25), 0]


# Inputs that tell rules apart -----------------------------------------------------------------------------------------


def one_output(opcode, a, b, c, target="sm_90a"):
    """The pattern of D[0, 0] for a row of A, a column of B and C[0, 0], given as numbers; the rest is zero.

    For floats an int is a pattern.
    """
    instruction = tcemu.parse(opcode)
    packed = []
    for role, values in (("a", a), ("b", b), ("c", [c])):
        fragment = instruction.fragments[role]
        whole = fragment.format.kind != "float"
        matrix = np.zeros(fragment.shape, np.int64 if whole else fragment.format.storage)
        line, batch = slice(len(values)), (0,) * (len(fragment.shape) - 2)
        matrix[(*batch, line, 0) if role == "b" else (*batch, 0, line)] = [
            x if isinstance(x, int) else int(fragment.format.encode(x)) for x in values
        ]
        packed.append(fragment.pack(matrix))
    fragment = instruction.fragments["d"]
    return int(fragment.unpack_patterns(tcemu.run(opcode, *packed, target=target)).flat[0])


BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
F16F16 = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
TF32 = "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"
QMMA = "mma.sync.aligned.m16n8k32.row.col.{0}.{1}.{1}.{0}"
HMMA884 = "mma.sync.aligned.m8n8k4.row.col.{0}.f16.f16.{0}"
INF = math.inf

#: name: opcode, row of A, column of B, C, the pattern that an H200 answers. Integers are patterns.
SETTLED = {
    # a, b: a zero c does not take part in the largest exponent, which is never below -133
    "16 products of 2^-152": (BF16, [2.0**-76] * 16, [2.0**-76] * 16, 0.0, 0x00000002),
    "one product at the floor": (BF16, [2.0**-75], [2.0**-74], 0.0, 0x00000001),
    "one product below": (BF16, [2.0**-75], [2.0**-75], 0.0, 0x00000000),
    "cut at 2^-158": (BF16, [2.0**-79] * 16, [2.0**-79] * 16, 0.0, 0x00000000),
    "kept at 2^-152, cut at 2^-158": (BF16, [2.0**-76, 2.0**-79] * 8, [2.0**-76, 2.0**-79] * 8, 0.0, 0x00000001),
    # exactly -133: 2^-158 is kept, so that these two make 2^-149; 2^-159 is not
    "511 * 2^-158 + 2^-158": (BF16, [7 * 2.0**-79, 2.0**-79], [73 * 2.0**-79, 2.0**-79], 0.0, 1),
    "1023 * 2^-159 + 2^-159": (BF16, [33 * 2.0**-80, 2.0**-80], [31 * 2.0**-79, 2.0**-79], 0.0, 0),
    # c: the floor of f16 results is -21
    "2^-25 + 2^-48": (F16F16, [2.0**-12, 2.0**-24], [2.0**-13, 2.0**-24], 0.0, 0x0000),
    "2^-25 + 2^-46": (F16F16, [2.0**-12, 2.0**-23], [2.0**-13, 2.0**-23], 0.0, 0x0001),
    "2^-25 + 2^-47": (F16F16, [2.0**-12, 2.0**-23], [2.0**-13, 2.0**-24], 0.0, 0x0000),
    # d: a product with a zero factor is left out, however large the other factor
    "a zero beside a large factor": (BF16, [0.0, 2.0**-70], [2.0**127, 2.0**-70], 0.0, 0x00000200),
    "a negative zero likewise": (BF16, [-0.0, 2.0**-70], [2.0**127, 2.0**-70], 0.0, 0x00000200),
    # e: what rounds to zero is +0
    "a negative underflow": (BF16, [-(2.0**-80)], [2.0**-71], 0.0, 0x00000000),
    # f: sums of zeros are +0, whatever their signs
    "c = -0 alone": (HMMA, [0.0], [0.0], -0.0, 0x00000000),
    "nothing but negative zeros": (HMMA, [-0.0] * 16, [0.0] * 16, -0.0, 0x00000000),
    "a difference of zero": (HMMA, [1.0, -1.0], [1.0, 1.0], -0.0, 0x00000000),
    # m8n8k4 is f32 arithmetic: its chain starts from +0 where D is f32, from the first product where D is f16
    "m8n8k4: negative zeros into f32": (HMMA884.format("f32"), [-0.0] * 4, [0.0] * 4, -0.0, 0x00000000),
    "m8n8k4: negative zeros into f16": (HMMA884.format("f16"), [-0.0] * 4, [0.0] * 4, -0.0, 0x8000),
    # the fraction bits
    "25 bits below": (HMMA, [2.0**12, 1.0, -(2.0**12)], [2.0**13, 1.0, 2.0**13], 0.0, 0x3F800000),
    "26 bits below": (HMMA, [2.0**13, 1.0, -(2.0**13)], [2.0**13, 1.0, 2.0**13], 0.0, 0x00000000),
    "toward zero": (HMMA, [-1.0], [1.0], -(2.0**-24), 0xBF800000),
    "c counts as well": (HMMA, [1.0], [1.0], 2.0**26, 0x4C800000),
    # overflow and specials
    "f32 overflows although it rounds toward zero": (BF16, [2.0**64] * 2, [2.0**63] * 2, 0.0, 0x7F800000),
    "no overflow in between": (BF16, [2.0**100, -(2.0**100), 1.0], [2.0**100, 2.0**100, 1.0], 0.0, 0x00000000),
    "f16 overflows at 65520": (F16F16, [1.0], [65504.0], 16.0, 0x7C00),
    "f16 below that": (F16F16, [1.0], [65504.0], 15.9921875, 0x7BFF),
    "an infinity": (HMMA, [INF], [-1.0], 0.0, 0xFF800000),
    "infinities of both signs": (HMMA, [INF, INF], [1.0, -1.0], 0.0, 0x7FFFFFFF),
    "infinity against c": (HMMA, [INF], [1.0], -INF, 0x7FFFFFFF),
    "infinity times zero": (HMMA, [INF], [0.0], 0.0, 0x7FFFFFFF),
    "a NaN": (HMMA, [0xFE01], [1.0], 0.0, 0x7FFFFFFF),
    "a NaN in f16": (F16F16, [0xFE01], [1.0], 0.0, 0x7FFF),
    "c a NaN": (HMMA, [0.0], [0.0], 0xFFC12345, 0x7FFFFFFF),
    # tf32 ignores 13 bits: such a NaN is an infinity
    "a NaN in ignored bits": (TF32, [0x7F800001], [1.0], 0.0, 0x7F800000),
    "ignored bits": (TF32, [0x3F801FFF], [1.0], 0.0, 0x3F800000),
    # fp8 by way of f16, c added last to nearest
    # half a unit of c, first where c is odd, then where it is even
    "fp8: c joins to nearest": (QMMA.format("f32", "e4m3"), [1.0], [2.0**-6], 2.0**18 + 2.0**-5, 0x48800002),
    "fp8: c joins to nearest, ties to even": (QMMA.format("f32", "e4m3"), [1.0], [2.0**-6], 2.0**18, 0x48800000),
    "fp8: c = -0 and nothing else": (QMMA.format("f32", "e4m3"), [0.0], [0.0], -0.0, 0x00000000),
    "fp8: e4m3's NaN": (QMMA.format("f16", "e4m3"), [0x7F], [1.0], 0.0, 0x7FFF),
    "fp8: e5m2's infinity": (QMMA.format("f32", "e5m2"), [0x7C], [1.0], 0.0, 0x7F800000),
    "fp8: subnormals": (QMMA.format("f32", "e4m3"), [2.0**-9], [2.0**-9], 0.0, 0x36800000),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTLED)
def test_what_silicon_settled(name):
    opcode, a, b, c, expected = SETTLED[name]
    assert f"{one_output(opcode, a, b, c):#x}" == f"{expected:#x}"


@pytest.mark.parametrize("name", SETTLED)
def test_what_silicon_settled_by_the_reference(name, reference_only):
    opcode, a, b, c, expected = SETTLED[name]
    assert f"{one_output(opcode, a, b, c):#x}" == f"{expected:#x}"


@pytest.mark.parametrize(
    ("target", "bits"),
    [
        ("sm_70", 23),
        ("sm_75", 24),
        ("sm_80", 24),
        ("sm_86", 24),
        ("sm_89", 24),
        ("sm_90", 25),
        ("sm_100", 25),
        ("sm_120", 25),
    ],
)
def test_fraction_bits_of_each_architecture(target, bits):
    """2^n + 1 - 2^n is 1 up to n = F, and 0 from there on."""
    opcode = (
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
        if target != "sm_70"
        else "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
    )
    for n, expected in ((bits, 0x3F800000), (bits + 1, 0)):
        half, rest = 2.0 ** (n // 2), 2.0 ** (n - n // 2)
        assert one_output(opcode, [half, 1.0, -half], [rest, 1.0, rest], 0.0, target) == expected


def test_sums_of_two_architectures_are_blocked_differently():
    """2^24 - 2^24 + 8 * 2^-27: two sums of 8 keep the small terms, which one sum of 16 cuts off."""
    a, b = [2.0**12, -(2.0**12)] + [0.0] * 6 + [2.0**-13] * 8, [2.0**12, 2.0**12] + [0.0] * 6 + [2.0**-14] * 8
    assert one_output(HMMA, a, b, 0.0, "sm_80") == 0x33800000  # 2^-24
    assert one_output(HMMA, a, b, 0.0, "sm_90") == 0


@pytest.mark.parametrize(("rounding", "expected"), [("rn", 0), ("rz", 0), ("rm", 0x8000000000000000), ("rp", 0)])
def test_f64_signs_of_zero(rounding, expected):
    opcode = f"mma.sync.aligned.m8n8k4.row.col.{rounding}.f64.f64.f64.f64"
    assert one_output(opcode, [1.0], [1.0], -1.0) == expected  # x - x
    assert one_output(opcode, [-0.0] * 4, [0.0] * 4, -0.0) == 0x8000000000000000  # every term is -0


def test_f64_specials():
    opcode = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
    quiet, loud = 0x7FF8000000000000, 0x7FF0000000000001
    assert one_output(opcode, [1.0] * 4, [1.0] * 4, quiet) == quiet
    assert one_output(opcode, [1.0] * 4, [1.0] * 4, loud) == quiet | 1
    assert one_output(opcode, [INF], [0.0], 0.0) == 0xFFF8000000000000
    assert one_output(opcode, [INF], [1.0], -INF) == 0xFFF8000000000000
    assert one_output(opcode, [INF], [-1.0], 0.0) == 0xFFF0000000000000


@given(
    st.lists(st.floats(width=64, allow_nan=False, allow_infinity=False), min_size=9, max_size=9),
    st.sampled_from(["rn", "rz", "rm", "rp"]),
)
def test_f64_is_a_chain_of_exact_multiply_adds(values, rounding):
    """Each link is the exact a b + c, rounded once by the codec, which other tests hold to numpy."""
    form, chain = lookup("f64"), Fraction(values[8])
    for a, b in zip(values[:4], values[4:8], strict=True):
        exact = Fraction(a) * Fraction(b) + chain
        if not exact:
            return  # the sign of zero has a test of its own
        number, denominator = exact.numerator, exact.denominator
        pattern = formats.round_exact(form, number, 1 - denominator.bit_length(), rounding)
        if not math.isfinite(float(form.decode(np.uint64(pattern)))):
            return
        chain = Fraction(float(form.decode(np.uint64(pattern))))
        if not chain:
            return
    opcode = f"mma.sync.aligned.m8n8k4.row.col.{rounding}.f64.f64.f64.f64"
    assert one_output(opcode, values[:4], values[4:8], values[8]) == pattern


# Integers and bits: numpy is the judge --------------------------------------------------------------------------------


def integer_variants():
    return [i for i in VARIANTS.values() if i.types["a"].kind != "float"]


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_120"])
def test_integers_and_bits_are_exact(target):
    for instruction in integer_variants():
        if not instruction.gate.admits(target_named(target)):
            continue
        given = matrices(instruction, "bits", 3)
        a, b, c = (
            instruction.fragments[role].unpack(array).astype(np.int64) for role, array in zip("abc", given, strict=True)
        )
        products = (a[:, :, :, None] ^ b[:, None]).sum(axis=2) if ".xor" in instruction.opcode else a @ b
        total = products + c
        if ".satfinite" in instruction.opcode:
            total = total.clip(-(2**31), 2**31 - 1)
        expected = total.astype(np.uint64).astype(np.uint32).view(np.int32)  # wraps
        got = instruction.fragments["d"].unpack(tcemu.run(instruction, *given, target=target))
        assert np.array_equal(got, expected), instruction


def test_satfinite_clamps_once_and_plain_wraps():
    opcode = "mma.sync.aligned.m16n8k32.row.col{}.s32.s8.u8.s32"
    top = 2**31 - 1
    assert one_output(opcode.format(""), [127, -127], [255, 255], top) == (top + 127 * 255 - 127 * 255) % 2**32
    assert one_output(opcode.format(".satfinite"), [127, -127], [255, 255], top) == top  # not clamped in between
    assert one_output(opcode.format(""), [1], [1], top) == 2**31
    assert one_output(opcode.format(".satfinite"), [1], [1], top) == top
    assert one_output(opcode.format(".satfinite"), [-1], [1], -(2**31)) == 2**31


# Twins ----------------------------------------------------------------------------------------------------------------


@cache
def operations():
    """Every operation that any variant needs on any target, with one variant for it."""
    found = {}
    for instruction in VARIANTS.values():
        for target in TARGETS.values():
            if not instruction.gate.admits(target):
                continue
            try:
                found.setdefault(instruction.operation(target), instruction)
            except ArithmeticUnknown:
                continue
    return found


def check_twins(operation, instruction, kinds, outputs, key):
    form = instruction.fragments
    (m, n, k), words = instruction.shape, operation.packed
    k = k // 32 if words else k
    for kind in kinds:
        given = matrices(instruction, kind, 1, key)
        flat = [array.reshape(1, -1) for array in given]
        a = form["a"].read(flat[0], words=words).reshape(-1, m, k)
        b = form["b"].read(flat[1], words=words).reshape(-1, k, n)
        c = form["c"].read(flat[2]).reshape(-1, m, n)
        d = compute(operation, a, b, c)
        rng = np.random.default_rng(len(key))
        for _ in range(outputs):
            w, i, j = rng.integers(d.shape)
            expected = dot(
                operation.model,
                a[w, i].tolist(),
                b[w, :, j].tolist(),
                int(c[w, i, j]),
                operation.formats,
                dict(operation.qualifiers),
            )
            assert int(d[w, i, j]) == expected, (
                instruction.opcode,
                operation.model,
                kind,
                (w, i, j),
                hex(d[w, i, j]),
                hex(expected),
            )


@pytest.mark.slow
def test_the_kernels_are_twins_of_the_reference():
    """Every operation in a third of the classes of inputs, others from operation to operation and every day."""
    for number, (operation, instruction) in enumerate(operations().items()):
        check_twins(operation, instruction, spread(classes(instruction), 3, first=number + DAY), 2, "twins")


@pytest.mark.slow
def test_the_arrays_of_numpy_are_twins_of_the_reference(monkeypatch):
    """Every operation without numba, as in a browser; those that arrays does not know are the reference's own."""
    monkeypatch.setattr("tcemu.backend._State.chosen", "arrays")
    for number, (operation, instruction) in enumerate(operations().items()):
        check_twins(operation, instruction, spread(classes(instruction), 3, first=number + DAY + 1), 2, "arrays")


def test_a_multiply_add_of_arrays_rounds_once():
    """Halfway cases, subnormals and overflow, against the exact sum of the reference."""
    single = lookup("f32")
    values = [0, 1, 0x80000001, 0x00800000, 0x3F800001, 0xBF7FFFFF, 0x33800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
    x, y, z = (each.ravel() for each in np.meshgrid(*[np.array(values, np.uint32)] * 3))
    more = np.random.default_rng(7).integers(0, 1 << 32, (3, 2000), dtype=np.uint32)
    more[2] = more[2] & 0x807FFFFF | ((more[0] >> 23 & 255) + (more[1] >> 23 & 255) - 127 & 255) << 23
    x, y, z = (np.concatenate(pair) for pair in zip((x, y, z), more, strict=True))
    expected = [fma_nearest(*each, single) for each in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)]
    assert fma32(x, y, z).tolist() == expected


@pytest.mark.slow
def test_the_kernels_are_twins_of_the_reference_on_many_outputs():
    """More outputs of a third of the classes, in turn; the first of these tests asks two of another third."""
    for number, (operation, instruction) in enumerate(operations().items()):
        check_twins(operation, instruction, spread(classes(instruction), 3, first=number + DAY + 2), 8, "more twins")


@given(st.data())
def test_the_kernels_are_twins_of_the_reference_on_any_bits(data):
    """One output of any operation, with the bits of hypothesis's choice."""
    operation = data.draw(st.sampled_from(sorted(operations(), key=repr)))
    depth = operation.depth // 32 if operation.packed else operation.depth

    def pattern(role):
        form = operation.formats[role]
        bits = 32 if operation.packed and role in "ab" else form.bits + form.padding
        corners = [
            0,
            form.sign_bit,
            form.nan_bits or 0,
            form.infinity_bits or 0,
            form.largest_pattern,
            1 << form.padding,
        ]
        return (
            st.one_of(st.integers(0, (1 << bits) - 1), st.sampled_from(corners))
            if form.kind == "float"
            else st.integers(0, (1 << bits) - 1)
        )

    a, b = (data.draw(st.lists(pattern(role), min_size=depth, max_size=depth)) for role in "ab")
    c = data.draw(pattern("c"))
    storage = {
        role: np.uint32 if operation.packed and role in "ab" else operation.formats[role].storage for role in "abc"
    }
    got = compute(
        operation,
        np.array(a, storage["a"]).reshape(1, 1, depth),
        np.array(b, storage["b"]).reshape(1, depth, 1),
        np.array(c, storage["c"]).reshape(1, 1, 1),
    )
    assert int(got[0, 0, 0]) == dot(operation.model, a, b, c, operation.formats, dict(operation.qualifiers))


# The table ------------------------------------------------------------------------------------------------------------


def test_every_instruction_has_one_row_wherever_it_is_legal():
    unknown = set()
    for instruction in VARIANTS.values():
        for target in TARGETS.values():
            if instruction.gate.admits(target):
                try:
                    row = instruction.arithmetic(target)
                except ArithmeticUnknown:
                    unknown.add((str(target), instruction.opcode))
                    continue
                assert row.known in ("silicon", "published silicon", "paper", "inferred")
                assert row.known != "silicon" or target.number == 90, "only sm_90 was recorded"
    assert not unknown, sorted(unknown)[:5]


def test_no_two_rows_speak_of_one_instruction():
    assert not any(one.overlaps(two) for one, two in combinations(ROWS, 2))
    row = ROWS[0]
    assert row.overlaps(row)
    named = Row(**{**vars(row), "shapes": frozenset({"m8n8k4"})})
    assert not named.overlaps(row)  # one that names the shape goes before one that does not
    assert named.overlaps(named)


def test_rows_that_make_no_sense_cannot_be_made():
    with pytest.raises(TableError, match=r"how is .* known"):
        Row(**{**vars(ROWS[0]), "known": "hearsay"})
    with pytest.raises(TableError, match="a fused sum of 0 products"):
        FusedSums(25, 0, None)
    with pytest.raises(TableError, match="added exactly once"):
        FmaGroups(groups=((0, 1), (2, 3)), order=(0, -1), from_zero=True)


def test_the_chains_cover_every_product_once():
    for operation in operations():
        model, depth = operation.model, operation.depth
        if isinstance(model, FusedSums):
            assert sorted(k for ks in model.sums(depth) for k in ks) == list(range(depth))
        if isinstance(model, FmaGroups):
            assert sorted(k for ks in model.groups for k in ks) == list(range(depth))
    assert any(isinstance(operation.model, FmaChain) for operation in operations())
    assert any(isinstance(operation.model, IntegerDot) for operation in operations())


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            (70, "mma", "m16n8k32", "e4m3", "e4m3", "f32", "f32"),
            ["sm_70", "m16n8k32", "e4m3 x e4m3 into f32", "it is known for sm_89, sm_90"],
        ),
        ((999, "mma", "m16n8k16", "f16", "f16", "f32", "f32"), ["sm_999", "it is known for sm_70"]),
        ((90, "mma", "m16n8k16", "f16", "f16", "s8", "s8"), ["f16 x f16 into s8", "nor is it known"]),
    ],
)
def test_what_no_row_speaks_of_is_unknown(question, words):
    with pytest.raises(ArithmeticUnknown) as error:
        find(*question)
    for word in words:
        assert word in str(error.value)


# Arrays of warps ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warps():
    return matrices(VARIANTS[HMMA], "specials", 6)


def test_leading_axes_are_warps_and_broadcast(warps):
    a, b, c = warps
    one_by_one = np.stack([tcemu.run(HMMA, a[i], b[i], c[i]) for i in range(6)])
    assert np.array_equal(tcemu.run(HMMA, a, b, c), one_by_one)
    assert np.array_equal(
        tcemu.run(HMMA, *(x.reshape(2, 3, *x.shape[1:]) for x in warps)), one_by_one.reshape(2, 3, 32, 4)
    )
    every = tcemu.run(HMMA, a[:, None], b[None, :], c[0])
    assert every.shape == (6, 6, 32, 4)
    assert np.array_equal(every[4, 2], tcemu.run(HMMA, a[4], b[2], c[0]))
    assert np.array_equal(tcemu.run(HMMA, a[:1], b, c)[5], tcemu.run(HMMA, a[0], b[5], c[5]))


def test_more_warps_than_fit_in_a_chunk():
    instruction = VARIANTS["mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc"]
    a, b, c = matrices(instruction, "bits", 2500)
    whole = tcemu.run(instruction, a, b, c)
    assert np.array_equal(whole[1020:1030], tcemu.run(instruction, a[1020:1030], b[1020:1030], c[1020:1030]))
    assert np.array_equal(whole[-1], tcemu.run(instruction, a[-1], b[-1], c[-1]))
    assert np.array_equal(tcemu.run(instruction, a, b[7], c[::-1])[2300], tcemu.run(instruction, a[2300], b[7], c[199]))


@pytest.mark.parametrize("lead", [(0,), (0, 3), (3, 0), (2, 0, 5)])
def test_no_warps_at_all(lead):
    for instruction in list(VARIANTS.values())[::7]:
        fragments = instruction.fragments
        given = [np.zeros((*lead, 32, fragments[r].registers), fragments[r].container.register_dtype) for r in "abc"]
        got = tcemu.run(instruction, *given, target="sm_120a")
        assert got.shape == (*lead, 32, fragments["d"].registers)
        single = np.zeros(given[1].shape[-2:], given[1].dtype)
        assert tcemu.run(instruction, given[0], single, given[2], target="sm_120a").shape == got.shape


@pytest.mark.slow
def test_strides_order_and_flags_do_not_matter(warps):
    expected = tcemu.run(HMMA, *warps)
    strided = [np.repeat(x, 2, axis=0)[::2] for x in warps]
    backwards = [np.ascontiguousarray(x[:, ::-1])[:, ::-1] for x in warps]
    fortran = [np.asfortranarray(x) for x in warps]
    frozen = [x.copy() for x in warps]
    for x in frozen:
        x.flags.writeable = False
    for same in (strided, backwards, fortran, frozen):
        assert np.array_equal(tcemu.run(HMMA, *same), expected)
    unaligned = []
    for x in warps:
        raw = np.zeros(x.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
        unaligned.append(raw[1:].view(np.uint32).reshape(x.shape))
    assert np.array_equal(tcemu.run(HMMA, *unaligned), expected)


def test_inputs_stay_as_they_are_and_outputs_are_new(warps):
    before = [x.copy() for x in warps]
    got = tcemu.run(HMMA, *warps)
    for x, y in zip(warps, before, strict=True):
        assert np.array_equal(x, y)
        assert not np.shares_memory(got, x)
    assert got.flags.writeable
    assert got.dtype == np.uint32


@pytest.mark.parametrize("dtype", [">u4", bool, np.float32, np.int64, np.uint8, object, "V4"])
def test_other_dtypes_are_refused_and_not_converted(warps, dtype):
    a, b, c = warps
    with pytest.raises(OperandError, match=r"operand b .* must be uint32 registers"):
        tcemu.run(HMMA, a, np.zeros(b.shape, dtype), c)


def test_the_twins_agree_on_arrays_of_warps(warps, reference_only):
    a, b, c = warps
    by_reference = tcemu.run(HMMA, a[:2, None], b[0], c[:1])
    assert by_reference.shape == (2, 1, 32, 4)
    assert np.array_equal(by_reference[1, 0], tcemu.run(HMMA, a[1], b[0], c[0]))


def test_every_class_of_inputs_is_used():
    assert set(classes(VARIANTS[HMMA])) == set(CLASSES)
    fragment = VARIANTS[HMMA].fragments["a"]
    assert registers(fragment, "bits", "key", 2).shape == (2, 32, 4)
