"""mma with block scaling: where scales stand, what they do, exact numbers beside the kernels, errors in words.

No recording exists, so what is proven is that the package does what the published model says, written here once more in
fractions; not that a chip does.
"""

import re
from fractions import Fraction

import assembler
import numpy as np
import pytest
from dots import KINDS, compute_dots, dots
from hypothesis import given
from hypothesis import strategies as st
from quick import examples, some
from rows import rows

import tcemu
import tcemu.microscaling
from tcemu import ArithmeticUnknown, OperandError, formats, parse, run
from tcemu.arithmetic import compute_scaled
from tcemu.instructions import target_named
from tcemu.instructions.mma_block_scale import FAMILY
from tcemu.vectors import metadata

VARIANTS = [instruction for _, instruction in FAMILY.variants]
RTX = "sm_120a"
MXF8 = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
MXF4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"
NVF4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
SPARSE = MXF8.replace("mma.sync", "mma.sp::ordered_metadata.sync").replace("k32", "k64")
ONE = {"ue8m0": 0x7F, "ue4m3": 0x38}

# Legality -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_not_in_the_table_is_refused():
    assembler.check_refusals(FAMILY, len(some(range(3), 1)))


def test_qualifiers_may_stand_in_any_order():
    assembler.check_order(FAMILY)


def test_operands_are_those_that_the_assembler_takes():
    """Register counts, byte-ids and thread-ids; ids in registers are a matter of PTX, not of this package."""
    seen = 0
    for line, target, taken in assembler.operand_verdicts("mma.sync.aligned.m16n8k32", "mma.sync.aligned.m16n8k64"):
        opcode, counts, texts = assembler.vectors(line)
        if "block_scale" not in opcode or "%" in texts[5]:
            continue
        given_ = [np.zeros((32, count), np.uint32) for count in counts[1:4]]
        picks = [tuple(int(number) for number in re.findall(r"\d+", texts[place])) for place in (5, 7)]
        scales = np.zeros(32, np.uint32)
        operands = (*given_, scales, picks[0], scales, picks[1])
        if taken:
            assert run(opcode, *operands, target=target).shape == (32, counts[0])
        else:
            with pytest.raises(OperandError, match="byte-id"):
                run(opcode, *operands, target=target)
        seen += 1
    assert seen >= 40


def test_every_form_says_that_no_silicon_was_seen():
    for instruction in VARIANTS:
        row = instruction.arithmetic(target_named(RTX))
        assert row.known in ("paper", "inferred")
        assert row.note


def test_other_chips_have_no_such_instruction():
    for target in ("sm_90a", "sm_100a", "sm_120"):
        with pytest.raises(tcemu.IllegalInstruction, match=f"does not exist on {target}"):
            run(MXF8, target=target)
    assert ArithmeticUnknown  # every legal form computes on every target that has it
    for instruction in VARIANTS:
        for target in ("sm_120a", "sm_121a", "sm_120f"):
            if instruction.gate.admits(target_named(target)):
                instruction.arithmetic(target_named(target))


# Fragments ------------------------------------------------------------------------------------------------------------


@rows("instruction", VARIANTS)
def test_the_fragments_and_scales_stand_in_their_lanes(instruction):
    m, n, k = instruction.shape
    stored = k // 2 if "sp" in instruction.words else k
    for role, depth, count in (("a", stored, m), ("b", k, n)):
        fragment = instruction.fragments[role]
        bits = 4 if "mxf4" in instruction.words["kind"] else 8
        e = 32 // bits
        assert (fragment.container.width, fragment.registers) == (bits, count * depth // 32 // e)
        small = fragment.format.name == "e2m1" and bits == 8
        assert fragment.container.shift == (2 if small else 0)
        for lane in range(0, 32, 5):
            g, t = divmod(lane, 4)
            for r in range(fragment.registers):
                for j in range(e):
                    a = (g + 8 * (r & 1), e * t + j + 4 * e * (r >> 1))
                    assert fragment.position(lane, r, j) == (a if role == "a" else (e * t + j + 4 * e * r, g))
    for thread in range(2):
        for row in range(16):
            for byte in range(4):
                lane = 4 * (row % 8) + 2 * thread + (row >= 8)
                assert instruction.fragments["scale_a"].holders(thread, row, byte) == [(lane, 0, byte)]
    for thread in range(4):
        for column in range(8):
            for byte in range(4):
                lane = 4 * column + thread
                assert instruction.fragments["scale_b"].holders(thread, byte, column) == [(lane, 0, byte)]


# In fractions ---------------------------------------------------------------------------------------------------------
# The published model on exact numbers, without a bit of the package: (exponent bits, mantissa bits, bias).

FIELDS = {
    "e5m2": (5, 2, 15),
    "e4m3": (4, 3, 7),
    "e3m2": (3, 2, 3),
    "e2m3": (2, 3, 1),
    "e2m1": (2, 1, 1),
    "f32": (8, 23, 127),
}
FIELDS |= {"ue4m3": (4, 3, 7)}


def split(name, pattern):
    """(significand, exponent) of a number, the significand a Fraction with the sign; "nan", or "+inf" or "-inf"."""
    if name == "ue8m0":
        return ("nan", 0) if pattern == 255 else (Fraction(1), pattern - 127)
    exponent_bits, mantissa_bits, bias = FIELDS[name]
    negative = pattern >> (exponent_bits + mantissa_bits) & 1 and name != "ue4m3"
    field, mantissa = pattern >> mantissa_bits & ((1 << exponent_bits) - 1), pattern & ((1 << mantissa_bits) - 1)
    ones = field == (1 << exponent_bits) - 1
    if name in ("e4m3", "ue4m3") and ones and mantissa == 7:
        return "nan", 0
    if name in ("e5m2", "f32") and ones:
        return ("nan" if mantissa else "-inf" if negative else "+inf"), 0
    significand = Fraction(mantissa, 1 << mantissa_bits) + (1 if field else 0)
    return (-significand if negative else significand), max(field, 1) - bias


def toward_zero(value):
    """The f32 pattern of a Fraction; zero is +0, too large is infinite."""
    size, sign = abs(value), 0x80000000 if value < 0 else 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(exponent - (size < Fraction(2) ** exponent), -126)
    if exponent > 127:
        return sign | 0x7F800000
    whole = int(size / Fraction(2) ** (exponent - 23))
    pattern = (exponent + 126 << 23) + whole
    return sign | pattern if whole else 0


def in_fractions(names, grouped, a, b, c, scale_a, scale_b):
    """One output: `grouped` 16 products at a time and 35 bits for the 4-bit kinds, else one by one and 25."""
    products = [(split(names["a"], x), split(names["b"], y)) for x, y in zip(a, b, strict=True)]
    x_scales, y_scales = ([split(names["scale"], s) for s in scales] for scales in (scale_a, scale_b))
    addend, c_exponent = split("f32", c)
    if addend == "nan" or any(s == "nan" for s, _ in (*x_scales, *y_scales)):
        return 0x7FFFFFFF
    infinite = {addend} if isinstance(addend, str) else set()
    for (x, _), (y, _) in products:
        if "nan" in (x, y):
            return 0x7FFFFFFF
        if isinstance(x, str) or isinstance(y, str):
            if x == 0 or y == 0:
                return 0x7FFFFFFF
            sign = [value == "-inf" if isinstance(value, str) else value < 0 for value in (x, y)]
            infinite.add("-inf" if sign[0] != sign[1] else "+inf")
    if infinite:
        return 0x7FFFFFFF if len(infinite) > 1 else 0x7F800000 if "+inf" in infinite else 0xFF800000
    cover = len(a) // len(scale_a)
    terms, exponents = [(addend, c_exponent)], [-139 if grouped else -133]
    exponents += [c_exponent] if addend else []
    if grouped:
        for first in range(0, len(a), 16):
            (sx, ex), (sy, ey) = x_scales[first // cover], y_scales[first // cover]
            total = sum(
                (x * Fraction(2) ** p * y * Fraction(2) ** q for (x, p), (y, q) in products[first : first + 16]),
                Fraction(0),
            )
            terms.append((total * sx * sy, ex + ey))
            # also where the products cancel, but not where all of them, or a scale, are zero
            if sx * sy and any(x * y for (x, _), (y, _) in products[first : first + 16]):
                exponents.append(ex + ey)
    else:
        for k, ((x, p), (y, q)) in enumerate(products):
            (sx, ex), (sy, ey) = x_scales[k // cover], y_scales[k // cover]
            terms.append((x * y * sx * sy, p + q + ex + ey))
            exponents += [p + q + ex + ey] if x * y * sx * sy else []
    largest = max(exponents)
    unit = Fraction(2) ** (largest - (35 if grouped else 25))
    total = sum(int(significand * Fraction(2) ** exponent / unit) for significand, exponent in terms)
    return toward_zero(total * unit)


TYPES = sorted({(i.types["a"].name, i.types["b"].name, i.words["stype"], i.facts.scales) for i in VARIANTS})


@st.composite
def outputs(draw):
    """Row, column, addend and scales; exponents near each other more often than not."""
    a, b, scale, count = draw(st.sampled_from(TYPES))
    grouped = count > 1
    depth = 64 if grouped else 32

    def patterns(name, size):
        bits = {"ue8m0": 8, "ue4m3": 7}.get(name) or 1 + sum(FIELDS[name][:2])
        anything = st.integers(0, (1 << bits) - 1)
        base = draw(anything)
        near = st.integers(-3, 3).map(lambda off: min(max(base + off, 0), (1 << bits) - 1))
        odd = st.sampled_from([0, 1, (1 << bits) - 2])
        return draw(
            st.lists(draw(st.sampled_from([anything, near, near, st.one_of(near, odd)])), min_size=size, max_size=size)
        )

    names = {"a": a, "b": b, "c": "f32", "d": "f32", "scale": scale}
    c = draw(
        st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 0x80000000, 1, 0x00800000, 0x3F800000, 0x7F800000]))
    )
    return names, grouped, patterns(a, depth), patterns(b, depth), c, patterns(scale, count), patterns(scale, count)


def form_of(names, scales):
    """A dense form with these types."""
    return next(
        i
        for i in VARIANTS
        if "sp" not in i.words
        and (i.types["a"].name, i.types["b"].name, i.words["stype"]) == (names["a"], names["b"], names["scale"])
        and i.facts.scales == scales
    )


def computed(names, a, b, c, scale_a, scale_b):
    """One output by the package."""
    operation = form_of(names, len(scale_a)).operation(target_named(RTX))
    forms = {r: formats.lookup(names[r]).storage for r in ("a", "b")}
    d = compute_scaled(
        operation,
        np.array(a, forms["a"])[None, None],
        np.array(b, forms["b"])[None, :, None],
        np.array([[[c]]], np.uint32),
        np.array(scale_a, np.uint8)[None, None],
        np.array(scale_b, np.uint8)[None, :, None],
    )
    return int(d[0, 0, 0])


@examples(200)
@given(outputs())
def test_the_kernels_are_what_fractions_say(case):
    names, grouped, *rest = case
    assert f"{computed(names, *rest):#010x}" == f"{in_fractions(names, grouped, *rest):#010x}"


@given(outputs())
def test_the_reference_is_what_fractions_say(case):
    names, grouped, *rest = case
    with pytest.MonkeyPatch.context() as patch:
        assembler.by_reference(patch)
        assert f"{computed(names, *rest):#010x}" == f"{in_fractions(names, grouped, *rest):#010x}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_types_is_what_fractions_say(row, kind, monkeypatch):
    """On inputs of every class that distinguishes rules, all of one pair of types in one call: kernels and numpy."""
    for a, b, stype, count in TYPES:
        names = {"a": a, "b": b, "c": "f32", "d": "f32", "scale": stype}
        instruction = form_of(names, count)
        given_ = dots(instruction, kind, "fractions", 8)
        operation = instruction.operation(target_named(RTX))
        found = compute_dots(operation, *given_)
        with monkeypatch.context() as patch, row(f"{instruction} {kind}"):
            patch.setattr("tcemu.backend._State.chosen", "arrays")
            by_numpy = compute_dots(operation, *given_)
            for got, other, *one in zip(found, by_numpy, *(each.tolist() for each in given_), strict=True):
                expected = f"{in_fractions(names, count > 1, *one):#010x}"
                assert [f"{got:#010x}", f"{other:#010x}"] == [expected] * 2, one


# Whole warps ----------------------------------------------------------------------------------------------------------


def scales_for(instruction, rng, low=120, high=135):
    """Scale matrices near 1."""
    s = instruction.facts.scales
    if instruction.words["stype"] == "ue4m3":
        low, high = 0x30, 0x40
    return [rng.integers(low, high, shape).astype(np.uint8) for shape in ((16, s), (s, 8))]


@pytest.mark.parametrize("instruction", VARIANTS[::3], ids=str)
def test_a_warp_is_its_sixteen_times_eight_outputs(instruction):
    """Scales through registers with every byte-id and thread-id; sparse rows meet the rows of B that metadata names."""
    rng = np.random.default_rng(7)
    fragments, (m, _, k) = instruction.fragments, instruction.shape
    a, b, c = (x[0] for x in assembler.elements(instruction, "near", "warp", 1))
    x, y = scales_for(instruction, rng)
    left, right, addend = (fragments[role].unpack_patterns(array) for role, array in (("a", a), ("b", b), ("c", c)))
    names = {role: form.name for role, form in instruction.types.items()} | {"scale": instruction.words["stype"]}
    held, met, more = None, np.tile(np.arange(k), (m, 1)), []
    if "sp" in instruction.words:
        held = metadata(instruction, "warp", 1)[0]
        codes = fragments["e"].unpack_patterns(held[:, None])[0]
        places = np.array([instruction.facts.pattern.positions[code] for code in codes.ravel()])
        chunk = instruction.facts.pattern.chunk
        met = (places.reshape(m, k // chunk, -1) + np.arange(0, k, chunk)[:, None]).reshape(m, -1)
        more = [held, 0]
    expected = None
    for byte in range(0, 4, instruction.facts.scales):
        for thread in range(4):
            p, q = (byte, thread % 2), (4 - instruction.facts.scales - byte, thread)
            registers = [
                tcemu.microscaling.scale_registers(scales, instruction, role, *pick)
                for role, scales, pick in (("a", x, p), ("b", y, q))
            ]
            d = run(instruction, a, b, c, *more, registers[0], p, registers[1], q, target=RTX)
            if expected is None:
                expected = d
            assert np.array_equal(d, expected)
    matrix = fragments["d"].unpack_patterns(expected)
    for row, column in ((0, 0), (3, 7), (9, 2), (15, 5)):
        one = in_fractions(
            names,
            instruction.facts.scales > 1,
            left[row].tolist(),
            right[met[row], column].tolist(),
            int(addend[row, column]),
            x[row].tolist(),
            y[:, column].tolist(),
        )
        assert int(matrix[row, column]) == one


@pytest.mark.parametrize("opcode", [SPARSE, NVF4])
def test_a_whole_warp_by_the_reference_and_by_numpy(opcode, monkeypatch):
    instruction = parse(opcode)
    given_ = assembler.elements(instruction, "specials", "reference", 1)
    x, y = scales_for(instruction, np.random.default_rng(4))
    more = [metadata(instruction, "reference", 1), 0] if opcode == SPARSE else []
    x, y = (tcemu.microscaling.scale_registers(s, opcode, role) for s, role in ((x, "a"), (y, "b")))
    fast = run(opcode, *given_, *more, x, (0, 0), y, (0, 0), target=RTX)
    for chosen in ("reference", "arrays"):
        monkeypatch.setattr("tcemu.backend._State.chosen", chosen)
        assert np.array_equal(run(opcode, *given_, *more, x, (0, 0), y, (0, 0), target=RTX), fast)


def test_scaled_with_ones_it_is_the_unscaled_form():
    """All scales 1: kind::mxf8f6f4 is kind::f8f6f4."""
    plain = MXF8.replace("mxf8f6f4.block_scale", "f8f6f4").removesuffix(".ue8m0")
    for kind in ("near", "wide", "tiny", "specials"):
        a, b, c = assembler.elements(parse(MXF8), kind, "ones", 20)
        one = np.full(32, 0x7F7F7F7F, np.uint32)
        assert np.array_equal(run(MXF8, a, b, c, one, (3, 1), one, (2, 3), target=RTX), run(plain, a, b, c, target=RTX))


@pytest.mark.parametrize("opcode", [MXF8, MXF4, NVF4])
def test_twice_the_scale_is_twice_the_result(opcode):
    """Where nothing is cut off: c is 0, and a power of two moves every exponent alike."""
    instruction = parse(opcode)
    a, b, _ = assembler.elements(instruction, "near", "twice", 3)
    c = np.zeros((32, 4), np.uint32)
    rng = np.random.default_rng(2)
    x, y = scales_for(instruction, rng)
    step = 8 if instruction.words["stype"] == "ue4m3" else 1  # ue4m3 has three mantissa bits
    registers = tcemu.microscaling.scale_registers
    d = run(opcode, a, b, c, registers(x, opcode, "a"), (0, 0), registers(y, opcode, "b"), (0, 0), target=RTX)
    doubled = run(
        opcode, a, b, c, registers(x + step, opcode, "a"), (0, 0), registers(y, opcode, "b"), (0, 0), target=RTX
    )
    assert np.array_equal(doubled.view(np.float32), 2 * d.view(np.float32))
    both = run(
        opcode, a, b, c, registers(x - step, opcode, "a"), (0, 0), registers(y + step, opcode, "b"), (0, 0), target=RTX
    )
    assert np.array_equal(both, d)


@pytest.mark.parametrize(("opcode", "nan"), [(MXF8, 0xFF), (MXF4, 0xFF), (NVF4, 0x7F), (SPARSE, 0xFF)])
def test_a_nan_scale_makes_its_row_or_column_nan(opcode, nan):
    instruction = parse(opcode)
    a, b, c = (x[0] for x in assembler.elements(instruction, "near", "nan", 1))
    x, y = scales_for(instruction, np.random.default_rng(1))
    x[5, -1], y[0, 3] = nan, nan
    registers = tcemu.microscaling.scale_registers
    more = [np.full(32, 0x44444444, np.uint32), 0] if opcode == SPARSE else []
    d = run(opcode, a, b, c, *more, registers(x, opcode, "a"), (0, 0), registers(y, opcode, "b"), (0, 0), target=RTX)
    patterns = instruction.fragments["d"].unpack_patterns(d)
    found = patterns == 0x7FFFFFFF
    expected = np.zeros((16, 8), bool)
    expected[5], expected[:, 3] = True, True
    assert np.array_equal(found, expected)


def test_a_scale_has_no_sign():
    instruction = parse(NVF4)
    a, b, c = (x[0] for x in assembler.elements(instruction, "near", "sign", 1))
    plain, negative = np.full(32, 0x38383838, np.uint32), np.full(32, 0xB8B8B8B8, np.uint32)
    one, two = (run(NVF4, a, b, c, x, (0, 0), plain, (0, 0), target=RTX) for x in (plain, negative))
    assert np.array_equal(one, two)


def test_small_numbers_are_exact():
    """Quantised matrices of few bits, scaled by powers of two near 1, lose nothing: the exact product comes out."""
    rng = np.random.default_rng(9)
    for opcode, kind in ((MXF8, "mxfp8_e4m3"), (MXF4, "mxfp4"), (NVF4, "nvfp4")):
        instruction = parse(opcode)
        m, n, k = instruction.shape
        left, right = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
        (a, x), (b, y) = tcemu.microscaling.quantise(left, kind), tcemu.microscaling.quantise(right, kind, axis=-2)
        packed = [instruction.fragments[role].pack(matrix) for role, matrix in (("a", a), ("b", b))]
        registers = [tcemu.microscaling.scale_registers(s, opcode, r) for s, r in ((x, "a"), (y, "b"))]
        c = np.zeros((32, 4), np.uint32)
        d = run(opcode, *packed, c, registers[0], (0, 0), registers[1], (0, 0), target=RTX)
        exact = tcemu.microscaling.dequantise(a, x, kind) @ tcemu.microscaling.dequantise(b, y, kind, axis=-2)
        got = instruction.fragments["d"].unpack(d).astype(np.float64)
        assert np.abs(got - exact).max() <= 2.0**-18 * np.abs(exact).max()
        if kind != "mxfp8_e4m3":
            assert np.array_equal(got, exact.astype(np.float32))


def test_the_axes_in_front_broadcast():
    instruction = parse(SPARSE)
    a, b, c = assembler.elements(instruction, "near", "broadcast", 6)
    held = metadata(instruction, "broadcast", 3)
    rng = np.random.default_rng(3)
    x, y = rng.integers(120, 130, (2, 1, 32)).astype(np.uint32), rng.integers(120, 130, (3, 32)).astype(np.uint32)
    d = run(SPARSE, a.reshape(2, 3, 32, 4), b[0], c[:3], held, 0, x, (0, 1), y, (0, 2), target=RTX)
    for i, j in np.ndindex(2, 3):
        one = run(SPARSE, a[3 * i + j], b[0], c[j], held[j], 0, x[i, 0], (0, 1), y[j], (0, 2), target=RTX)
        assert np.array_equal(d[i, j], one)
    assert run(SPARSE, a[:0], b[0], c[0], held[0], 0, x[0, 0], (0, 0), y[0], (0, 0), target=RTX).shape == (0, 32, 4)


# Errors ---------------------------------------------------------------------------------------------------------------


def zeros(*shape, dtype=np.uint32):
    return np.zeros(shape, dtype)


A, B, C, S = zeros(32, 4), zeros(32, 2), zeros(32, 4), zeros(32)
E = np.full(32, 0x44444444, np.uint32)

BAD_OPERANDS = {
    "none": (MXF8, (), ["takes A, B, C, scale_a, (byte_id, thread_id), scale_b", "got 0 operands"]),
    "no scales": (MXF8, (A, B, C), ["takes A, B, C, scale_a", "got 3 operands"]),
    "no metadata": (
        SPARSE,
        (A, A, C, S, (0, 0), S, (0, 0)),
        ["A, B, C, metadata, a selector, scale_a", "got 7 operands"],
    ),
    "ids among the operands": (MXF8, (A, B, C, S, 0, 0, S, 0, 0), ["got 9 operands"]),
    "scales of floats": (
        MXF8,
        (A, B, C, S.astype(np.float32), (0, 0), S, (0, 0)),
        ["scale_a is one uint32 register per lane, (..., 32)", "float32"],
    ),
    "scales of bytes": (
        MXF8,
        (A, B, C, S, (0, 0), S.astype(np.uint8), (0, 0)),
        ["scale_b is one uint32 register per lane", "uint8"],
    ),
    "a matrix of scales": (
        MXF8,
        (A, B, C, zeros(16, 1), (0, 0), S, (0, 0)),
        ["scale_a is one uint32 register per lane", "(16, 1)"],
    ),
    "a number as scale": (MXF8, (A, B, C, 1.0, (0, 0), S, (0, 0)), ["scale_a is one uint32 register", "got float"]),
    "a byte-id of 4": (
        MXF8,
        (A, B, C, S, (4, 0), S, (0, 0)),
        [
            "scale_a is followed by (byte_id, thread_id)",
            "with 1 scale",
            "0, 1, 2 or 3",
            "thread-id 0 or 1",
            "got (4, 0)",
        ],
    ),
    "an odd byte-id of 2X": (
        MXF4,
        (A, B, C, S, (0, 0), S, (1, 0)),
        ["scale_b is followed by", "with 2 scales the byte-id is 0 or 2", "thread-id 0, 1, 2 or 3", "got (1, 0)"],
    ),
    "a byte-id of 4X": (NVF4, (A, B, C, S, (2, 0), S, (0, 0)), ["with 4 scales the byte-id is 0 and", "got (2, 0)"]),
    "a thread-id of A of 2": (
        MXF8,
        (A, B, C, S, (0, 2), S, (0, 0)),
        ["scale_a is followed by", "thread-id 0 or 1", "got (0, 2)"],
    ),
    "a negative thread-id": (MXF8, (A, B, C, S, (0, 0), S, (0, -1)), ["scale_b is followed by", "got (0, -1)"]),
    "one id": (MXF8, (A, B, C, S, 0, S, (0, 0)), ["scale_a is followed by (byte_id, thread_id)", "got 0"]),
    "three ids": (MXF8, (A, B, C, S, (0, 0, 0), S, (0, 0)), ["scale_a is followed by", "got (0, 0, 0)"]),
    "ids that are no integers": (MXF8, (A, B, C, S, (0.0, 0), S, (0, 0)), ["scale_a is followed by", "got (0.0, 0)"]),
    "truths": (MXF8, (A, B, C, S, (False, True), S, (0, 0)), ["scale_a is followed by", "got (False, True)"]),
    "a selector": (SPARSE, (A, A, C, E, 1, S, (0, 0), S, (0, 0)), ["the selector is an immediate, 0", "got 1"]),
    "bad metadata": (SPARSE, (A, A, C, S, 0, S, (0, 0), S, (0, 0)), ["metadata of lane 0, bits 3:0", "0b0000"]),
    "warps that do not fit": (
        MXF8,
        (A, B, C, zeros(2, 32), (0, 0), zeros(3, 32), (0, 0)),
        ["do not broadcast", "scale_a (2,)", "scale_b (3,)"],
    ),
}


@pytest.mark.parametrize("mistake", BAD_OPERANDS)
def test_operands_that_do_not_fit_are_explained(mistake):
    opcode, operands, words = BAD_OPERANDS[mistake]
    with pytest.raises(OperandError) as error:
        run(opcode, *operands, target=RTX)
    for word in words:
        assert word in str(error.value)


ODD = st.one_of(
    st.none(), st.integers(), st.text(), st.tuples(st.integers(), st.integers()), st.just(S), st.just(A), st.just(E),
    st.just((0, 0)), st.just(zeros(2, 32)), st.just(np.zeros((2, 2))), st.just(object()), st.just((np.zeros(2), 0)),
)  # fmt: skip


@given(st.sampled_from([MXF8, NVF4]), st.lists(ODD, min_size=4, max_size=4))
def test_anything_runs_or_is_explained(opcode, odd):
    assembler.only_tcemu_errors(run, opcode, A, B, C, *odd, target=RTX)
    assembler.only_tcemu_errors(run, opcode, *odd, S, (0, 0), S, target=RTX)
    assembler.only_tcemu_errors(run, SPARSE, A, A, C, E, *odd[:1], *odd, target=RTX)
