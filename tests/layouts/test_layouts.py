"""Layouts obey their laws; every fragment of mma.sync agrees with the PTX manual's formulas."""

import re
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import some
from rows import rows

from tcemu import LayoutError, OperandError, parse
from tcemu.errors import TableError
from tcemu.instructions import FAMILIES
from tcemu.instructions.mma import FAMILY as MMA
from tcemu.layouts import Fragment, Layout
from tcemu.layouts.mma import ordinary

VARIANTS = [instruction for _, instruction in MMA.variants]
FRAGMENTS = {
    (repr(fragment.layout), fragment.container): fragment
    for family in FAMILIES
    for _, instruction in family.variants
    for fragment in instruction.fragments.values()
}

# Laws -----------------------------------------------------------------------------------------------------------------


@st.composite
def layouts(draw):
    """Any layout of a few small digits, broadcasts and batches included."""
    names = [f"d{index}" for index in range(draw(st.integers(0, 5)))]
    sizes = {name: draw(st.integers(1, 4)) for name in names}
    copies = draw(st.sets(st.sampled_from(names))) if names else set()
    left, right = draw(st.permutations([name for name in names if name not in copies])), draw(st.permutations(names))
    groups = draw(st.integers(2, 3))

    def text(digits, count):
        cuts = sorted(draw(st.lists(st.integers(0, len(digits)), min_size=count - 1, max_size=count - 1)))
        parts = [digits[a:b] for a, b in zip([0, *cuts], [*cuts, len(digits)], strict=True)]
        return " ".join(f"({' '.join(part)})" if part else "1" for part in parts)

    return Layout(f"{text(left, groups)} -> {text(right, 2)}", **sizes), sizes, copies


def mixed_radix(pattern, sizes, values):
    """The number of each group of one side of a pattern, for given digits; written without the package."""
    groups = re.findall(r"\(([^)]*)\)|(\S+)", pattern)
    for inside, alone in groups:
        number = 0
        for digit in (inside or alone).split() if alone != "1" else []:
            number = number * sizes[digit] + values[digit]
        yield number


@given(layouts())
def test_a_layout_is_what_its_pattern_says(made):
    layout, sizes, _ = made
    left, right = layout.pattern.split(" -> ")
    for digits in product(*(range(size) for size in sizes.values())):
        values = dict(zip(sizes, digits, strict=True))
        position, (lane, slot) = tuple(mixed_radix(left, sizes, values)), mixed_radix(right, sizes, values)
        assert layout.position(lane, slot) == position
        assert (lane, slot) in layout.holders(*position)


@given(layouts())
def test_a_layout_is_a_bijection_or_a_broadcast_of_equal_copies(made):
    layout, sizes, copies = made
    assert layout.copies == prod(sizes[name] for name in copies)
    assert layout.lanes * layout.slots == prod(layout.shape) * layout.copies
    assert layout.gather.shape == (layout.lanes, layout.slots)
    assert np.bincount(layout.gather.ravel(), minlength=prod(layout.shape)).tolist() == [layout.copies] * prod(
        layout.shape
    )
    # scatter leads to the first of the holders, and gather back to the element
    assert np.array_equal(layout.gather.ravel()[layout.scatter.ravel()], np.arange(prod(layout.shape)))
    for flat, position in enumerate(np.ndindex(layout.shape)):
        holders = layout.holders(*position)
        assert len(holders) == layout.copies
        assert holders == sorted(holders)
        assert {layout.position(*holder) for holder in holders} == {position}
        assert layout.scatter.ravel()[flat] == holders[0][0] * layout.slots + holders[0][1]


@given(layouts())
def test_a_layout_is_a_value(made):
    layout, sizes, _ = made
    again = eval(repr(layout), {"Layout": Layout})  # noqa: S307 - our own repr
    assert again == layout
    assert hash(again) == hash(layout)
    assert Layout(layout.pattern, **sizes) == layout
    assert layout.pattern in str(layout)
    assert layout != layout.pattern
    with pytest.raises(ValueError, match="read-only"):
        layout.gather[...] = 0
    with pytest.raises(ValueError, match="read-only"):
        layout.scatter[...] = 0


def test_spaces_and_parentheses_around_one_digit_do_not_matter():
    assert Layout("(h)   g->g (h)", h=2, g=8) == Layout("h g -> g h", h=2, g=8)


def test_a_digit_may_have_any_name():
    layout = Layout("pattern self -> self pattern", pattern=8, self=4)
    assert layout.shape == (8, 4)
    assert layout.position(3, 5) == (5, 3)


# The manual -----------------------------------------------------------------------------------------------------------

#: Elements of a 32-bit register, by type; a register holds one f64.
SHARE = {"f64": 1, "f32": 1, "s32": 1, "tf32": 1, "f16": 2, "bf16": 2, "s8": 4, "u8": 4, "s4": 8, "u4": 8, "b1": 32}
SHARE |= dict.fromkeys(("e5m2", "e4m3", "e3m2", "e2m3", "e2m1"), 4)  # 6- and 4-bit floats stand in bytes


def manual(opcode, role, lane, register, j):
    """(row, column) of element j of a register of a lane; PTX ISA 9.7.14.5.1 to .13, but for m8n8k4 of f16."""
    m = int(re.search(r"\.m(\d+)n8k\d+", opcode)[1])
    d, a, b, c = re.findall(r"\.(?=((?:f64|f32|tf32|bf16|f16|e\dm\d|s32|[su][48]|b1)(?=\.|$)))", opcode)
    share = SHARE[{"a": a, "b": b, "c": c, "d": d}[role]]
    group, thread = lane >> 2, lane % 4
    if role in "cd":
        i = register * share + j
        return group + 8 * (i >> 1), 2 * thread + (i & 1)
    if role == "b":
        return share * thread + j + 4 * share * register, group
    halves = m // 8  # a 16-row A has rows g and g + 8 in turn
    return group + 8 * (register % halves), share * thread + j + 4 * share * (register // halves)


def manual_quad_pairs(opcode, role, lane, register, j):
    """(quad pair, row, column) of m8n8k4 of f16: lanes 4q..4q+3 and 16+4q..16+4q+3 compute product q."""
    alayout, blayout, d, c = re.search(r"k4\.(\w+)\.(\w+)\.(\w+)\.f16\.f16\.(\w+)", opcode).groups()
    quad, p, h = (lane >> 2) & 3, lane & 3, 4 * (lane >> 4)
    if role in "cd":
        if {"c": c, "d": d}[role] == "f16":
            return quad, p + h, 2 * register + j
        i = register
        return quad, (lane & 1) + (i & 2) + h, (i & 4) + (lane & 2) + (i & 1)
    i = 2 * register + j
    if role == "a":
        return (quad, p + h, i) if alayout == "row" else (quad, i + h, p)
    return (quad, i, p + h) if blayout == "col" else (quad, p, i + h)


@rows("instruction", some(VARIANTS, 50))
def test_every_fragment_stands_where_the_manual_says(instruction):
    quads = ".m8n8k4." in instruction.opcode and ".f16.f16." in instruction.opcode
    formula = manual_quad_pairs if quads else manual
    for role, fragment in instruction.fragments.items():
        assert fragment.lanes == 32
        assert fragment.role == role
        for lane, register, j in product(range(32), range(fragment.registers), range(fragment.elements_per_register)):
            expected = formula(instruction.opcode, role, lane, register, j)
            assert fragment.position(lane, register, j) == expected, (role, lane, register, j)


#: Registers a lane of A, B, C and D, as the manual's tables have them (9.7.14.5.1 to .13).
REGISTERS = {
    "m8n8k4.row.col.f64.f64.f64.f64": (1, 1, 2, 2),
    "m8n8k16.row.col.s32.u8.s8.s32": (1, 1, 2, 2),
    "m8n8k32.row.col.s32.u4.s4.s32": (1, 1, 2, 2),
    "m8n8k128.row.col.s32.b1.b1.s32.xor.popc": (1, 1, 2, 2),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (2, 1, 4, 4),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (4, 2, 4, 4),
    "m16n8k4.row.col.f64.f64.f64.f64": (2, 1, 4, 4),
    "m16n8k8.row.col.f64.f64.f64.f64": (4, 2, 4, 4),
    "m16n8k16.row.col.f64.f64.f64.f64": (8, 4, 4, 4),
    "m16n8k8.row.col.f16.f16.f16.f16": (2, 1, 2, 2),
    "m16n8k8.row.col.f32.bf16.bf16.f32": (2, 1, 4, 4),
    "m16n8k16.row.col.f16.f16.f16.f16": (4, 2, 2, 2),
    "m16n8k16.row.col.f32.f16.f16.f32": (4, 2, 4, 4),
    "m16n8k16.row.col.s32.s8.s8.s32": (2, 1, 4, 4),
    "m16n8k16.row.col.f16.e4m3.e5m2.f16": (2, 1, 2, 2),
    "m16n8k32.row.col.s32.s8.s8.s32": (4, 2, 4, 4),
    "m16n8k32.row.col.f32.e4m3.e5m2.f32": (4, 2, 4, 4),
    "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32": (4, 2, 4, 4),
    "m16n8k32.row.col.kind::f8f6f4.f16.e2m1.e3m2.f16": (4, 2, 2, 2),
    "m16n8k32.row.col.s32.s4.s4.s32": (2, 1, 4, 4),
    "m16n8k64.row.col.s32.s4.s4.s32": (4, 2, 4, 4),
    "m16n8k128.row.col.s32.b1.b1.s32.and.popc": (2, 1, 4, 4),
    "m16n8k256.row.col.s32.b1.b1.s32.and.popc": (4, 2, 4, 4),
    "m8n8k4.row.col.f16.f16.f16.f16": (2, 2, 4, 4),
    "m8n8k4.col.row.f32.f16.f16.f16": (2, 2, 4, 8),
    "m8n8k4.col.row.f32.f16.f16.f32": (2, 2, 8, 8),
}


@pytest.mark.parametrize("opcode", REGISTERS)
def test_register_counts_are_the_manuals(opcode):
    fragments = parse(f"mma.sync.aligned.{opcode}").fragments
    assert tuple(fragments[role].registers for role in "abcd") == REGISTERS[opcode]


def test_the_line_that_the_course_teaches_is_the_line_that_runs():
    fragments = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments
    assert str(fragments["a"].layout) == "(h g) (c t p) -> (g t) (c h p)  h=2 g=8 c=2 t=4 p=2"
    assert str(fragments["c"].layout) == "(h g) (t p) -> (g t) (h p)  h=2 g=8 t=4 p=2"


def test_a_shape_that_the_ordinary_line_does_not_describe_is_refused():
    for shape, elements in [((16, 16, 16), 2), ((12, 8, 16), 2), ((16, 8, 4), 2)]:
        with pytest.raises(TableError, match="does not cover m"):
            ordinary("a", shape, elements)


# Fragments ------------------------------------------------------------------------------------------------------------


def fragment_name(fragment):
    return f"{fragment.role} {fragment.format.name} in {fragment.container.width} bits: {fragment.layout}"


@pytest.mark.parametrize("twin", ["numba", "reference"])
@rows("fragment", FRAGMENTS.values(), ids=fragment_name)
def test_registers_and_matrices_are_two_views_of_the_same(fragment, twin, monkeypatch):
    monkeypatch.setattr("tcemu.backend._State.chosen", twin)
    form, rng = fragment.format, np.random.default_rng(7)
    bits = form.bits + form.padding
    patterns = (
        rng.integers(0, 1 << bits, size=(3, *fragment.shape), dtype=np.uint64, endpoint=False)
        if bits < 64
        else rng.integers(0, 2**64, size=(3, *fragment.shape), dtype=np.uint64)
    )
    patterns = patterns.astype(form.storage)
    matrix = form.matrix(patterns)
    assert matrix.dtype == form.dtype
    registers = fragment.pack(matrix)
    assert registers.shape == (3, fragment.lanes, fragment.registers)
    assert registers.dtype == f"uint{fragment.container.register_bits}"
    back = fragment.unpack(registers)
    assert back.dtype == form.dtype
    assert np.array_equal(form.patterns(back), patterns)
    # each element stands in its own bits of each of its holders
    width, shift = fragment.container.width, fragment.container.shift
    for position in [
        (0,) * len(fragment.shape),
        tuple(rng.integers(fragment.shape)),
        tuple(size - 1 for size in fragment.shape),
    ]:
        for lane, register, element in fragment.holders(*position):
            word = int(registers[1, lane, register]) >> (width * element + shift)
            assert word & ((1 << bits) - 1) == patterns[(1, *position)]
            assert fragment.position(lane, register, element) == tuple(position)
    # patterns are taken as well as values, one matrix as well as many, none too
    if form.kind == "float":
        assert np.array_equal(fragment.pack(patterns), registers)
    assert np.array_equal(fragment.pack(matrix[0]), registers[0])
    assert fragment.pack(matrix[:0]).shape == (0, fragment.lanes, fragment.registers)
    assert fragment.unpack(registers[:0]).shape == (0, *fragment.shape)
    assert np.array_equal(
        fragment.pack(matrix.reshape(1, 3, 1, *fragment.shape)), registers.reshape(1, 3, 1, *registers.shape[1:])
    )
    assert fragment.unpack(registers.reshape(3, 1, *registers.shape[1:])).shape == (3, 1, *fragment.shape)
    # a transposed view is packed by value, not by memory
    swapped = np.asarray(np.swapaxes(np.ascontiguousarray(np.swapaxes(matrix, -1, -2)), -1, -2))
    assert np.array_equal(fragment.pack(swapped), registers)


@pytest.mark.parametrize(("name", "place"), [("e2m1", 2), ("e3m2", 0), ("e2m3", 0), ("e4m3", 0)])
def test_small_floats_stand_in_bytes(name, place):
    """e2m1 in bits 5:2 of its byte, 6-bit floats in bits 5:0 (PTX ISA 9.7.14.5.14)."""
    opcode = f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{name}.{name}.f32"
    for role in "ab":
        fragment = parse(opcode).fragments[role]
        ones = (1 << fragment.format.bits) - 1
        patterns = np.full(fragment.shape, ones, np.uint8)
        assert (fragment.pack(patterns) == int.from_bytes(4 * bytes([ones << place]), "little")).all()


def test_both_twins_write_the_same_registers(monkeypatch):
    rng = np.random.default_rng(3)
    for fragment in FRAGMENTS.values():
        patterns = rng.integers(
            0, 1 << fragment.format.bits if fragment.format.bits < 64 else 2**63, size=(4, prod(fragment.shape))
        )
        patterns = patterns.astype(fragment.format.storage)
        written = []
        for twin in ("numba", "reference"):
            monkeypatch.setattr("tcemu.backend._State.chosen", twin)
            written.append(fragment.write(patterns))
            assert np.array_equal(fragment.read(written[-1]), patterns)
        assert np.array_equal(*written)


# Mistakes -------------------------------------------------------------------------------------------------------------

PATTERN_MISTAKES = {
    "no text": (
        None,
        {},
        "a layout must be a string, e.g. '(h g) (t p) -> (g t) (h p)'; got an object of type NoneType",
    ),
    "no arrow": ("h g", {"h": 2, "g": 8}, "layout 'h g' needs exactly one '->', between the matrix (left) and the"),
    "two arrows": ("h -> g -> h", {"h": 2, "g": 8}, "needs exactly one '->', between the matrix (left) and"),
    "an open parenthesis": ("(h g -> g h", {"h": 2, "g": 8}, "the parentheses do not match"),
    "a closing parenthesis": ("h g) -> g h", {"h": 2, "g": 8}, "the parentheses do not match"),
    "nested parentheses": ("((h) g) c -> g (h c)", {"h": 2, "g": 8, "c": 2}, "the parentheses do not match"),
    "no name": ("h+ g -> g h+", {"g": 8}, "'h+' is not the name of a digit; use letters, or 1 for an empty group"),
    "one group on the left": (
        "(h g) -> g h",
        {"h": 2, "g": 8},
        "the left side needs a row and a column (after a batch, if any)",
    ),
    "four groups on the left": ("a b c d -> a (b c d)", dict.fromkeys("abcd", 2), "the left side needs a row and"),
    "one group on the right": ("h g -> (g h)", {"h": 2, "g": 8}, "the right side a lane and a slot"),
    "twice on the left": ("(h g) (g p) -> g (h p)", {"h": 2, "g": 8, "p": 2}, "g occurs twice on the left"),
    "twice on the right": ("(h g) p -> (g h) (h p)", {"h": 2, "g": 8, "p": 2}, "h occurs twice on the right"),
    "held by nobody": ("(h g) p -> g p", {"h": 2, "g": 8, "p": 2}, "digit h is only on the left, so no lane or"),
    "no size": ("(h g) p -> g (h p)", {"h": 2, "p": 2}, "every digit needs a size, and only digits have one; see g"),
    "a size too many": (
        "h g -> g h",
        {"h": 2, "g": 8, "q": 2},
        "every digit needs a size, and only digits have one; see q",
    ),
    "a size of zero": ("h g -> g h", {"h": 0, "g": 8}, "the size of h must be a whole number of at least 1"),
    "a size with a fraction": ("h g -> g h", {"h": 2, "g": 1.5}, "the size of g must be a whole number of at least 1"),
    "a size in words": ("h g -> g h", {"h": 2, "g": "8"}, "the size of g must be a whole number of at least 1"),
    "more than fits anywhere": (
        "h g -> g h",
        {"h": 10**9, "g": 10**9},
        "1000000000000000000 places; a layout may have",
    ),
}


@pytest.mark.parametrize("mistake", PATTERN_MISTAKES)
def test_a_pattern_that_cannot_be_parsed_is_explained(mistake):
    pattern, sizes, sentence = PATTERN_MISTAKES[mistake]
    with pytest.raises(LayoutError) as error:
        Layout(pattern, **sizes)
    assert sentence in str(error.value)
    assert pattern is None or pattern in str(error.value)


OUTSIDE = {
    "a lane": (lambda f: f.layout.position(32, 0), ["lane 32, slot 0", "lanes 0 to 31", "slots 0 to 7"]),
    "a slot": (lambda f: f.layout.position(0, 8), ["lane 0, slot 8", "lanes 0 to 31", "slots 0 to 7"]),
    "a negative lane": (lambda f: f.layout.position(-1, 0), ["lane -1, slot 0", "lanes 0 to 31"]),
    "a lane in words": (lambda f: f.layout.position("3", 0), ["whole numbers", "str and int"]),
    "half a lane": (lambda f: f.layout.position(1.5, 0), ["whole numbers", "float and int"]),
    "a row": (lambda f: f.layout.holders(16, 0), ["position (16, 0)", "shape (16, 16), counted from 0"]),
    "a column alone": (lambda f: f.layout.holders(3), ["position (3,)", "shape (16, 16)"]),
    "half a row": (lambda f: f.holders(0.5, 0), ["whole numbers", "float and int"]),
    "a register": (lambda f: f.position(0, 4), ["register 4, element 0", "registers 0 to 3", "elements 0 to 1"]),
    "an element": (lambda f: f.position(0, 0, 2), ["register 0, element 2", "registers 0 to 3", "elements 0 to 1"]),
    "a register in words": (lambda f: f.position(0, "r1"), ["whole numbers", "str and int"]),
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_what_lies_outside_a_layout_is_explained(what):
    call, words = OUTSIDE[what]
    with pytest.raises(LayoutError) as error:
        call(parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["a"])
    for word in words:
        assert word in str(error.value)


def test_numpys_integers_are_numbers_too():
    layout = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["a"].layout
    assert layout.position(np.int64(5), np.uint8(3)) == layout.position(5, 3)
    assert layout.holders(np.int32(1), np.intp(2)) == layout.holders(1, 2)


BAD_MATRICES = {
    "another shape": (
        np.zeros((8, 16), np.float16),
        ["a must be a matrix of shape (..., 16, 16)", "got (8, 16)", "independent warps"],
    ),
    "a vector": (np.zeros(16, np.float16), ["(..., 16, 16)", "got (16,)"]),
    "a number": (np.float16(1), ["(..., 16, 16)", "got ()"]),
    "another dtype": (
        np.zeros((16, 16), np.float32),
        ["float16", "uint16", "got dtype float32", "Nothing is rounded silently"],
    ),
    "other bits": (np.zeros((16, 16), np.int16), ["float16", "uint16", "got dtype int16"]),
    "another byte order": (np.zeros((16, 16), ">f2"), ["float16", "got dtype >f2"]),
    "objects": (np.zeros((16, 16), object), ["float16", "got dtype object"]),
    "words": ("matrix", ["float16", "got dtype <U6"]),
    "nothing": (None, ["float16", "got dtype object"]),
    "a ragged list": ([[1.0], [1.0, 2.0]], ["a of f16: not an array"]),
}


@pytest.mark.parametrize("what", BAD_MATRICES)
def test_a_matrix_that_does_not_fit_is_explained(what):
    matrix, words = BAD_MATRICES[what]
    with pytest.raises(OperandError) as error:
        parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["a"].pack(matrix)
    for word in words:
        assert word in str(error.value)


BAD_REGISTERS = {
    "transposed": (
        np.zeros((4, 32), np.uint32),
        ["(..., 32, 4)", "got shape (4, 32)", "Lanes come first, then registers: transpose it"],
    ),
    "too many lanes": (np.zeros((64, 4), np.uint32), ["got shape (64, 4)", "64 lanes", "but a warp has 32 lanes"]),
    "half a warp": (np.zeros((7, 16, 4), np.uint32), ["got shape (7, 16, 4)", "16 lanes", "every lane takes part"]),
    "too few registers": (
        np.zeros((32, 2), np.uint32),
        ["got shape (32, 2)", "2 registers a lane where 4 are needed", "8 elements a lane, 2 to a register"],
    ),
    "one register": (np.zeros((32, 1), np.uint32), ["1 register a lane where 4 are needed"]),
    "no registers": (np.zeros((32, 0), np.uint32), ["0 registers a lane where 4 are needed"]),
    "a vector": (np.zeros(32, np.uint32), ["The last two axes are lanes and registers"]),
    "a number": (np.uint32(3), ["The last two axes are lanes and registers"]),
    "signed": (np.zeros((32, 4), np.int32), ["uint32", "got dtype int32", ".view(numpy.uint32)"]),
    "wider": (np.zeros((32, 4), np.uint64), ["uint32", "got dtype uint64", ".astype(numpy.uint32)"]),
    "another byte order": (np.zeros((32, 4), ">u4"), ["uint32", "got dtype >u4", ".astype(numpy.uint32)"]),
    "a matrix": (
        np.zeros((16, 16), np.float16),
        ["uint32", "got dtype float16", "Fragment.pack turns a matrix into registers"],
    ),
    "truths": (np.zeros((32, 4), bool), ["uint32", "got dtype bool"]),
    "nothing": (None, ["operand a (f16)", "got dtype object"]),
    "a ragged list": ([[1], [1, 2]], ["operand a: not an array of registers"]),
}


@pytest.mark.parametrize("what", BAD_REGISTERS)
def test_registers_that_do_not_fit_are_explained(what):
    registers, words = BAD_REGISTERS[what]
    with pytest.raises(OperandError) as error:
        parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["a"].unpack(registers)
    for word in words:
        assert word in str(error.value)


def test_f64_registers_are_64_bits_wide():
    fragment = parse("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64").fragments["a"]
    with pytest.raises(
        OperandError, match=r"operand a \(f64\) must be uint64 registers of shape \(\.\.\., 32, 1\); got dtype uint32"
    ):
        fragment.unpack(np.zeros((32, 1), np.uint32))


def test_integers_out_of_range_are_not_wrapped():
    fragment = parse("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32").fragments["a"]
    for value in (8, -9, 300):
        with pytest.raises(Exception, match=f"s4 holds whole numbers from -8 to 7, not {value}"):
            fragment.pack(np.full((16, 32), value))


def test_slots_that_do_not_fill_registers_are_a_mistake_of_the_table():
    whole = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["a"]
    with pytest.raises(TableError, match="3 elements do not fill registers of 2"):
        Fragment("a", Layout("g i -> g i", g=32, i=3), whole.container)


def test_a_fragment_tells_what_it_is():
    text = repr(parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["a"])
    for word in ("fragment a", "16 x 16 f16", "4 registers a lane", "(h g) (c t p) -> (g t) (c h p)"):
        assert word in text
