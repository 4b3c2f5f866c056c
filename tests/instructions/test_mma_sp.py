"""mma.sp: the lanes of the metadata, its meaning, the results, and errors that name lane and bits."""

from fractions import Fraction

import assembler
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples, some
from rows import rows

import tcemu
import tcemu.sparse
from tcemu import OperandError, parse, run
from tcemu.arithmetic import FusedSums, IntegerDot, compute
from tcemu.instructions import target_named
from tcemu.instructions.mma_sp import FAMILY
from tcemu.instructions.sparsity import SPARSITY
from tcemu.vectors import metadata

VARIANTS = [instruction for _, instruction in FAMILY.variants]
SHAPES = {
    (i.types["a"].name, str(i.shape), i.words["sp"]): i for i in VARIANTS if "kind" not in i.words
}  # one form for each
F16 = "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
F16_K32 = F16.replace("k16", "k32")
TF32 = "mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
S4 = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"
E4M3 = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32"


def home(instruction):
    """A target that has the form."""
    return "sm_90a" if instruction.gate.admits(target_named("sm_90a")) else "sm_120a"


# Legality -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_not_in_the_table_is_refused():
    assembler.check_refusals(FAMILY, len(some(range(3), 1)))


def test_qualifiers_may_stand_in_any_order():
    assembler.check_order(FAMILY)


def test_operands_are_those_that_the_assembler_takes():
    """Register counts, and selectors: but for those of m16n8k32 that the manual does not give."""
    seen = 0
    for line, target, taken in assembler.operand_verdicts("mma.sp"):
        opcode, counts, texts = assembler.vectors(line)
        if not all(isinstance(count, int) for count in counts[:4]) or "%" in texts[5] or "%" not in texts[4]:
            continue
        given = [np.zeros((32, count), np.uint32) for count in counts[1:4]]
        held, selector = np.full(32, 0x44444444, np.uint32), int(texts[5])
        d = assembler.parse_or_none(opcode).fragments["d"]
        assert d.registers == counts[0]
        if taken and not (".m16n8k32." in opcode and ".f16." in opcode and selector > 1):
            run(opcode, *given, held, selector, target=target)
        else:
            with pytest.raises(OperandError, match="selector"):
                run(opcode, *given, held, selector, target=target)
        seen += 1
    assert seen >= 30


# Fragments ------------------------------------------------------------------------------------------------------------


@rows("instruction", some(VARIANTS, 30))
def test_the_fragments_are_those_of_the_dense_form(instruction):
    """A as a dense A on the stored half, B, C and D as in dense forms of the whole k."""
    m, n, k = instruction.shape
    for role, depth in (("a", k // 2), ("b", k)):
        fragment = instruction.fragments[role]
        e = 32 // fragment.container.width
        rows = m if role == "a" else n
        assert fragment.registers == rows * depth // 32 // e
        for lane in range(32):
            g, t = divmod(lane, 4)
            for r in range(fragment.registers):
                for j in range(e):
                    if role == "a":
                        expected = (g + 8 * (r & 1), e * t + j + 4 * e * (r >> 1))
                    else:
                        expected = (e * t + j + 4 * e * r, g)
                    assert fragment.position(lane, r, j) == expected
    for role in "cd":
        for lane in range(32):
            g, t = divmod(lane, 4)
            for i in range(4):
                place = instruction.fragments[role].layout.position(lane, i)
                assert place == (g + 8 * (i >> 1), 2 * t + (i & 1))


def metadata_holder(bits, k, chunk, selector, row, column):
    """(lane, chunk of its register) that holds a chunk of a row: the manual's figures, in words of numbers."""
    g, h = row % 8, row // 8
    long = k // chunk == (8 if bits >= 16 else 16)
    if bits >= 16:
        t = 2 * selector + column // 4 if long else selector
        return 4 * g + t, 4 * h + column % 4
    t = h + 2 * (column // 8) if long else 2 * selector + h
    return 4 * g + t, column % 8


@pytest.mark.parametrize("key", SHAPES)
def test_the_metadata_stands_in_its_lanes(key):
    instruction = SHAPES[key]
    fragment, pattern, k = instruction.fragments["e"], instruction.facts.pattern, instruction.shape.k
    bits, chunks = instruction.fragments["a"].container.width, k // pattern.chunk
    selectors = {(True, True): 2, (True, False): 4, (False, True): 1, (False, False): 2}
    long = chunks == (8 if bits >= 16 else 16)
    assert fragment.shape == (selectors[bits >= 16, long], 16, chunks)
    assert fragment.registers == 1
    for selector in range(fragment.shape[0]):
        for row in range(16):
            for column in range(chunks):
                lane, place = metadata_holder(bits, k, pattern.chunk, selector, row, column)
                assert fragment.layout.holders(selector, row, column) == [(lane, place)]


def test_the_legal_metadata():
    two = {(low | high << 2): (low, high) for low in range(4) for high in range(4) if low != high}
    assert dict(SPARSITY["2:4", "sp"].positions) == two
    rising = {0x4: (0, 1), 0x8: (0, 2), 0x9: (1, 2), 0xC: (0, 3), 0xD: (1, 3), 0xE: (2, 3)}
    assert dict(SPARSITY["2:4", "sp::ordered_metadata"].positions) == rising
    for order in ("sp", "sp::ordered_metadata"):
        assert dict(SPARSITY["1:2", order].positions) == {0b0100: (0,), 0b1110: (1,)}
        expected = {
            code: (2 * x, 2 * x + 1, 2 * y, 2 * y + 1) for code, (x, y) in SPARSITY["2:4", order].positions.items()
        }
        assert dict(SPARSITY["4:8", order].positions) == expected


# What is computed -----------------------------------------------------------------------------------------------------


def stored_and_met(instruction, a, b, held, selector):
    """Patterns of the stored A (16, k / 2) and, for each row, the k of each stored element: by the figures."""
    fragments, k = instruction.fragments, instruction.shape.k
    pattern, bits = instruction.facts.pattern, fragments["a"].container.width
    stored = fragments["a"].unpack_patterns(a)
    places = np.zeros((16, k // 2), int)
    for row in range(16):
        found = []
        for column in range(k // pattern.chunk):
            lane, place = metadata_holder(bits, k, pattern.chunk, selector, row, column)
            code = int(held[lane]) >> (4 * place) & 15
            if pattern.chunk == 2:
                chosen = [code >> 1 & 1]
            else:
                chosen = [code & 3, code >> 2]
                chosen = [2 * pair + e for pair in chosen for e in (0, 1)] if pattern.chunk == 8 else chosen
            found += [column * pattern.chunk + place for place in chosen]
        places[row] = found
    return stored, fragments["b"].unpack_patterns(b), places


@pytest.mark.parametrize("key", SHAPES)
def test_a_row_sums_the_products_of_its_stored_elements(key):
    """Each row against a separate dense product, on matrices that plain numpy assembles."""
    instruction = SHAPES[key]
    target = home(instruction)
    operation = instruction.operation(target_named(target))
    fragments, n = instruction.fragments, instruction.shape.n
    for kind in assembler.kinds(instruction):
        a, b, c = assembler.elements(instruction, kind, "test", 2)
        held = metadata(instruction, f"test|{instruction}|{kind}", 2)
        for selector in range(fragments["e"].shape[0]):
            d = run(instruction, a, b, c, held, selector, target=target)
            for warp in range(2):
                stored, whole, places = stored_and_met(instruction, a[warp], b[warp], held[warp], selector)
                rows = stored[:, None], whole[places], fragments["c"].unpack_patterns(c[warp])[:, None]
                expected = compute(operation, *rows).reshape(16, n)
                assert np.array_equal(fragments["d"].unpack_patterns(d[warp]), expected), (kind, selector)


def test_integers_are_exact():
    rng = np.random.default_rng(3)
    for name, low, high, shape in (
        ("s8", -128, 128, "m16n8k64"),
        ("u8", 0, 256, "m16n8k32"),
        ("s4", -8, 8, "m16n8k128"),
    ):
        opcode = f"mma.sp.sync.aligned.{shape}.row.col.s32.{name}.{name}.s32"
        instruction = parse(opcode)
        dense = tcemu.sparse.prune(
            rng.integers(low, high, (5, 16, instruction.shape.k)), "4:8" if name == "s4" else "2:4"
        )
        b = rng.integers(low, high, (5, instruction.shape.k, 8))
        c = rng.integers(-(2**31), 2**31, (5, 16, 8))
        values, held = tcemu.sparse.compress(dense, opcode)
        packed = [instruction.fragments[role].pack(matrix) for role, matrix in (("a", values), ("b", b), ("c", c))]
        d = instruction.fragments["d"].unpack(run(opcode, *packed, held, 0))
        exact = dense @ b + c
        assert np.array_equal(d, (exact + 2**31) % 2**32 - 2**31)
        clamped = run(opcode.replace("row.col", "row.col.satfinite"), *packed, held, 0)
        assert np.array_equal(instruction.fragments["d"].unpack(clamped), np.clip(exact, -(2**31), 2**31 - 1))


@pytest.mark.parametrize("opcode", [F16, F16_K32, TF32])
def test_small_numbers_are_exact(opcode):
    """Small integers lose nothing in any order of sums, so a sparse product equals the matrix product."""
    instruction = parse(opcode)
    rng = np.random.default_rng(1)
    m, n, k = instruction.shape
    dense = tcemu.sparse.prune(rng.integers(-8, 9, (m, k)).astype(instruction.types["a"].dtype), opcode)
    b, c = (
        rng.integers(-8, 9, (k, n)).astype(instruction.types["b"].dtype),
        rng.integers(-99, 99, (m, n)).astype(np.float32),
    )
    values, held = tcemu.sparse.compress(dense, opcode)
    packed = [instruction.fragments[role].pack(matrix) for role, matrix in (("a", values), ("b", b), ("c", c))]
    d = instruction.fragments["d"].unpack(run(opcode, *packed, held, 0))
    assert np.array_equal(d, dense.astype(np.float64) @ b.astype(np.float64) + c)


@pytest.mark.parametrize("opcode", [F16, F16_K32, TF32, E4M3, S4])
def test_what_a_pruned_element_meets_does_no_harm(opcode):
    instruction = parse(opcode)
    fragments, form = instruction.fragments, instruction.types["b"]
    b = np.zeros(fragments["b"].shape, form.storage)
    held = np.full(32, 0x44444444, np.uint32)  # the first elements of every chunk are stored
    pattern = instruction.facts.pattern
    places = sorted(
        {(chunk + p) for chunk in range(0, instruction.shape.k, pattern.chunk) for p in pattern.positions[4]}
    )
    pruned = np.setdiff1d(np.arange(instruction.shape.k), places)
    assert len(pruned) == instruction.shape.k // 2
    b[pruned] = form.nan_bits if form.has_nan else 7
    b[pruned[::2]] = form.infinity_bits or b[pruned[0], 0]
    a = np.full(fragments["a"].shape, 1 if form.kind != "float" else int(form.encode(1.0)), form.storage)
    c = np.zeros((32, 4), np.uint32)
    d = run(opcode, fragments["a"].pack(a), fragments["b"].pack(b), c, held, 0)
    assert not d.any()


def test_a_swapped_order_stores_the_same_row():
    plain = F16.replace("::ordered_metadata", "")
    instruction = parse(plain)
    rng = np.random.default_rng(5)
    dense = tcemu.sparse.prune(rng.standard_normal((16, 16)).astype(np.float16), plain)
    values, held = tcemu.sparse.compress(dense, plain)
    swapped = values.reshape(16, 4, 2)[..., ::-1].reshape(16, 8)
    turned = ((held & 0x33333333) << 2) | ((held >> 2) & 0x33333333)
    b, c = (
        instruction.fragments[r].pack(rng.standard_normal(instruction.fragments[r].shape).astype(t))
        for r, t in (("b", np.float16), ("c", np.float32))
    )
    one = run(plain, instruction.fragments["a"].pack(values), b, c, held, 0)
    two = run(plain, instruction.fragments["a"].pack(swapped), b, c, turned, 0)
    assert np.array_equal(one, two)  # on sm_90 all products of an instruction are one sum
    with pytest.raises(OperandError, match=r"metadata of lane 0, bits 3:0 \(row 0, chunk 0\)"):
        run(F16, instruction.fragments["a"].pack(swapped), b, c, turned, 0)


# The reference --------------------------------------------------------------------------------------------------------


@examples(25)
@given(st.sampled_from(VARIANTS), st.integers(0, 10**6), st.integers(0, 3))
def test_the_reference_answers_the_same(instruction, seed, which):
    kind = (*assembler.kinds(instruction), "bits")[seed % len(assembler.kinds(instruction))]
    target = home(instruction)
    operation = instruction.operation(target_named(target))
    fragments, n = instruction.fragments, instruction.shape.n
    assert isinstance(operation.model, FusedSums | IntegerDot)
    a, b, c = (
        fragments[role].unpack_patterns(array)[None]
        for role, array in zip("abc", (x[0] for x in assembler.elements(instruction, kind, str(seed), 1)), strict=True)
    )
    held = metadata(instruction, str(seed), 1)[0]
    _, _, places = stored_and_met(
        instruction,
        np.zeros((32, fragments["a"].registers), np.uint32),
        np.zeros((32, fragments["b"].registers), np.uint32),
        held,
        0,
    )
    fast = compute(operation, a, b, c, places[None])
    rows, columns = [which, which + 8], [seed % n]
    with pytest.MonkeyPatch.context() as patch:
        assembler.by_reference(patch)
        cut = np.ascontiguousarray(a[:, rows]), np.ascontiguousarray(b[:, :, columns]), c[:, rows][:, :, columns]
        slow = compute(operation, *cut, places[None, rows])
    assert np.array_equal(fast[:, rows][:, :, columns], slow)


def test_a_whole_warp_by_the_reference(monkeypatch):
    given_ = assembler.elements(parse(F16), "specials", "warp", 1)
    held = metadata(parse(F16), "warp", 1)
    fast = run(F16, *given_, held, 2)
    assembler.by_reference(monkeypatch)
    assert np.array_equal(run(F16, *given_, held, 2), fast)


# Many warps -----------------------------------------------------------------------------------------------------------


def test_the_axes_in_front_broadcast():
    instruction = parse(F16_K32)
    a, b, c = assembler.elements(instruction, "near", "broadcast", 6)
    held = metadata(instruction, "broadcast", 3)
    d = run(F16_K32, a.reshape(2, 3, 32, 4), b[0], c[:3], held, 1)
    assert d.shape == (2, 3, 32, 4)
    for i, j in np.ndindex(2, 3):
        assert np.array_equal(d[i, j], run(F16_K32, a[3 * i + j], b[0], c[j], held[j], 1))
    assert run(F16_K32, a[:0], b[0], c[0], held[0], 0).shape == (0, 32, 4)
    assert run(F16_K32, a[0], b[0], c[0], held[0], np.int64(1)).shape == (32, 4)


def test_more_warps_than_a_chunk():
    instruction = parse(F16)
    a, b, c = (np.concatenate([x] * 500) for x in assembler.elements(instruction, "near", "many", 3))
    held = np.concatenate([metadata(instruction, "many", 3)] * 500)
    d = run(F16, a, b, c, held, 3)
    assert np.array_equal(d, np.concatenate([d[:3]] * 500))
    held[1300, 7] &= 0xFFFFFF0F  # lane 7 is that of selector 3
    with pytest.raises(OperandError, match=r"lane 7, bits 7:4 \(row 1, chunk 1, warp 1300\) is 0b0000"):
        run(F16, a, b, c, held, 3)


# Errors ---------------------------------------------------------------------------------------------------------------


def zeros(*shape, dtype=np.uint32):
    return np.zeros(shape, dtype)


A, B, C, E = zeros(32, 2), zeros(32, 2), zeros(32, 4), np.full(32, 0x44444444, np.uint32)


def spoilt(lane, bits):
    held = E.copy()
    held[lane] = bits
    return held


BAD_OPERANDS = {
    "none": (F16, (), ["takes registers of A, B and C, metadata and a selector", "got 0 operands"]),
    "no selector": (F16, (A, B, C, E), ["metadata and a selector", "got 4 operands"]),
    "A as wide as the dense one": (F16, (zeros(32, 4), B, C, E, 0), ["operand a (f16)", "4 registers a lane where 2"]),
    "metadata of 64 bits": (
        F16,
        (A, B, C, E.astype(np.uint64), 0),
        ["metadata is one uint32 register per lane, (..., 32)", "uint64"],
    ),
    "metadata of floats": (
        F16,
        (A, B, C, E.astype(np.float32), 0),
        ["metadata is one uint32 register per lane", "float32"],
    ),
    "metadata of 16 lanes": (F16, (A, B, C, E[:16], 0), ["(..., 32)", "shape (16,)"]),
    "metadata in a column": (F16, (A, B, C, E[:, None], 0), ["(..., 32)", "shape (32, 1)"]),
    "metadata in a list": (F16, (A, B, C, E.tolist(), 0), ["metadata is one uint32 register per lane", "list"]),
    "no metadata": (F16, (A, B, C, None, 0), ["metadata is one uint32 register per lane", "NoneType"]),
    "a scalar as metadata": (F16, (A, B, C, np.uint32(4), 0), ["metadata is one uint32 register per lane"]),
    "a selector too large": (
        F16,
        (A, B, C, E, 4),
        ["the selector is an immediate, 0, 1, 2 or 3", "which lanes' metadata", "got 4"],
    ),
    "a negative selector": (F16, (A, B, C, E, -1), ["the selector is an immediate", "got -1"]),
    "a selector of the wrong kind": (F16, (A, B, C, E, "0"), ["the selector is an immediate", "got '0'"]),
    "a truth as selector": (F16, (A, B, C, E, True), ["the selector is an immediate", "got True"]),
    "a selector in an array": (F16, (A, B, C, E, np.zeros(1, int)), ["the selector is an immediate", "got array"]),
    "a selector where there is none": (
        E4M3,
        (zeros(32, 4), zeros(32, 4), C, E, 1),
        ["the selector is an immediate, 0: all lanes' metadata is used", "got 1"],
    ),
    "what only the assembler takes": (
        F16_K32,
        (zeros(32, 4), zeros(32, 4), C, E, 2),
        ["the selector is an immediate, 0 or 1", "got 2", "The assembler accepts 2 and 3 too"],
    ),
    "warps that do not fit": (
        F16,
        (zeros(3, 32, 2), B, C, np.stack([E, E]), 0),
        ["do not broadcast", "a (3,)", "metadata (2,)"],
    ),
    "equal indices": (
        F16,
        (A, B, C, spoilt(4, 0x44444544), 0),
        [
            "metadata of lane 4, bits 11:8 (row 1, chunk 2) is 0b0101",
            "2:4 sparsity takes 0b0100, 0b1000, 0b1001, 0b1100, 0b1101 or 0b1110",
        ],
    ),
    "falling indices": (
        F16,
        (A, B, C, spoilt(4, 0x14444444), 0),
        ["metadata of lane 4, bits 31:28 (row 9, chunk 3) is 0b0001"],
    ),
    "equal indices without order": (
        F16.replace("::ordered_metadata", ""),
        (A, B, C, spoilt(8, 0xA4444444), 0),
        ["metadata of lane 8, bits 31:28 (row 10, chunk 3) is 0b1010", "0b0001, 0b0010"],
    ),
    "tf32 takes two values": (
        TF32,
        (zeros(32, 2), zeros(32, 2), C, spoilt(0, 0x44444448), 0),
        ["metadata of lane 0, bits 3:0 (row 0, chunk 0) is 0b1000", "1:2 sparsity takes 0b0100 or 0b1110"],
    ),
    "pairs": (
        S4,
        (zeros(32, 2), zeros(32, 2), C, spoilt(1, 0x44444440), 0),
        ["metadata of lane 1, bits 3:0 (row 8, chunk 0) is 0b0000", "4:8 by pairs sparsity takes"],
    ),
    "shared memory": (F16, (A, B, C, E, 0), ["does not take shared=", "registers only"]),
}


@pytest.mark.parametrize("mistake", BAD_OPERANDS)
def test_operands_that_do_not_fit_are_explained(mistake):
    opcode, operands, words = BAD_OPERANDS[mistake]
    with pytest.raises(OperandError) as error:
        run(opcode, *operands, **({"shared": zeros(16, dtype=np.uint8)} if mistake == "shared memory" else {}))
    for word in words:
        assert word in str(error.value)


def test_what_one_call_has_found_does_not_hold_for_other_operands():
    """An instruction remembers what it has checked: right operands, then other orders in memory, then wrong ones."""
    random = np.random.default_rng(4)
    a, b = (random.integers(0, 1 << 14, (32, 2), np.uint32) * 0x10001 for _ in "ab")
    c, held = random.integers(0, 1 << 30, (32, 4), np.uint32), np.where(np.arange(32) % 3, E, np.uint32(0xEEEEEEEE))
    expected = run(F16, *(np.broadcast_to(each, (3, *each.shape)) for each in (a, b, c, held)), 0)[2]
    for _ in range(2):
        assert np.array_equal(run(F16, a, b, c, held, 0), expected)
        strided = [np.repeat(each, 2, axis=0)[::2] for each in (a, b, c, held)]
        assert np.array_equal(run(F16, *strided, 0), expected)
        assert np.array_equal(run(F16, np.asfortranarray(a), b, np.asfortranarray(c), held, 0), expected)
        for wrong in ((a, b, c, spoilt(0, 0), 0), (a, b, c, held[None, :16], 0), (a, b, c, held.astype(np.int64), 0)):
            with pytest.raises(OperandError, match="metadata"):
                run(F16, *wrong)
        for wrong in ((a[:, :1], b, c), (a, b.astype(np.uint64), c), (a, b, c[:16])):
            with pytest.raises(OperandError, match="operand"):
                run(F16, *wrong, held, 0)
        with pytest.raises(OperandError, match="selector"):
            run(F16, a, b, c, held, True)


def test_lanes_that_the_selector_leaves_out_may_hold_anything():
    held = spoilt(5, 0)
    assert np.array_equal(run(F16, A, B, C, held, 0), run(F16, A, B, C, E, 0))
    with pytest.raises(OperandError, match="lane 5"):
        run(F16, A, B, C, held, 1)


ODD = st.one_of(
    st.none(),
    st.integers(),
    st.text(),
    st.floats(),
    st.just(E),
    st.just(A),
    st.just(zeros(2, 32)),
    st.just([E]),
    st.just(zeros(0, 32)),
    st.just(object()),
)


@given(st.sampled_from([F16, TF32, S4, E4M3]), st.lists(ODD, min_size=5, max_size=5))
def test_anything_runs_or_is_explained(opcode, operands):
    for given_ in (operands, [A, B, C, *operands[:2]], [A, B, C, E, operands[0]]):
        assembler.only_tcemu_errors(run, opcode, *given_)


def test_a_sum_of_fractions():
    """One output in exact numbers: where nothing is cut, it is the sum over the stored elements."""
    instruction = parse(F16)
    dense = np.zeros((16, 16), np.float16)
    dense[3, [1, 2, 4, 7, 13]] = [0.5, -1.25, 3, 2, -0.125]
    values, held = tcemu.sparse.compress(dense, F16)
    b = (np.arange(128).reshape(16, 8) / 8).astype(np.float16)
    packed = [instruction.fragments[role].pack(matrix) for role, matrix in (("a", values), ("b", b))]
    d = instruction.fragments["d"].unpack(run(F16, *packed, C, held, 0))
    expected = sum(Fraction(float(dense[3, k])) * Fraction(float(b[k, 5])) for k in range(16))
    assert Fraction(float(d[3, 5])) == expected
