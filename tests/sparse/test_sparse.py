"""tcemu.sparse: what is pruned, what is stored, and where the metadata says so."""

from itertools import combinations

import assembler
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples
from rows import rows

import tcemu
from tcemu import IllegalInstruction, OperandError, parse, run, sparse
from tcemu.instructions.mma_block_scale import FAMILY as SCALED
from tcemu.instructions.mma_sp import FAMILY

VARIANTS = [i for family in (FAMILY, SCALED) for _, i in family.variants if "sp" in i.words]
F16 = "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
F16_K32 = F16.replace("k16", "k32")
TF32 = "mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
S4 = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"
FP8 = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32"


def matrix(instruction, rng, *lead):
    """Any numbers of A's format, few zeros among them."""
    form = instruction.types["a"]
    shape = (*lead, 16, instruction.shape.k)
    if form.kind == "float":
        return rng.standard_normal(shape).astype(form.dtype)
    return rng.integers(1, 1 << form.mantissa, shape).astype(form.dtype)


def bits(instruction, array):
    return instruction.types["a"].patterns(array)


@rows("instruction", VARIANTS)
def test_a_pruned_matrix_comes_back(instruction):
    rng = np.random.default_rng(1)
    dense = sparse.prune(matrix(instruction, rng, 2, 3), instruction)
    for selector in range(instruction.fragments["e"].shape[0]):
        values, metadata = sparse.compress(dense, instruction, selector)
        assert values.shape == (2, 3, 16, instruction.shape.k // 2)
        assert (metadata.shape, metadata.dtype) == ((2, 3, 32), np.uint32)
        assert values.dtype == dense.dtype == instruction.types["a"].dtype
        back = sparse.decompress(values, metadata, instruction, selector)
        assert np.array_equal(bits(instruction, back), bits(instruction, dense))
        instruction.fragments["a"].pack(values)


@examples(150)
@given(st.sampled_from(VARIANTS), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_round_trips_keep_every_bit(instruction, seed, share):
    """Any patterns, NaN and Inf among them, with zeros of both signs; chunks that are too full are pruned first."""
    rng = np.random.default_rng(seed)
    form, shape = instruction.types["a"], (16, instruction.shape.k)
    patterns = rng.integers(0, form.code_mask + 1, shape).astype(form.storage)
    zero = form.storage.type(form.sign_bit if form.kind == "float" and seed % 3 else 0)
    patterns[rng.random(shape) < share] = zero
    pattern = instruction.facts.pattern
    pruned = (
        sparse.prune(patterns, instruction)
        if form.kind == "float"
        else bits(instruction, sparse.prune(form.matrix(patterns), instruction))
    )
    given_ = pruned if form.kind == "float" else form.matrix(pruned)
    values, metadata = sparse.compress(given_, instruction)
    back = bits(instruction, sparse.decompress(values, metadata, instruction))
    negative = (pruned == form.sign_bit) & (form.kind == "float")
    assert np.array_equal(np.where(negative, 0, back), np.where(negative, 0, pruned))
    # what compress made is legal, rises, and is what it makes again of what it gives back
    again = sparse.compress(form.matrix(back), instruction)
    assert np.array_equal(sparse.decompress(*again, instruction).view(np.uint8), form.matrix(back).view(np.uint8))
    room = (negative.reshape(16, -1, pattern.chunk).sum(-1) > 0) & (
        (pruned != 0).reshape(16, -1, pattern.chunk).sum(-1) <= pattern.stored
    )
    if pattern.chunk != 8:  # a zero with a sign stays where there is room for it
        chunks = back.reshape(16, -1, pattern.chunk), pruned.reshape(16, -1, pattern.chunk)
        assert np.array_equal(chunks[0][room], chunks[1][room])


def test_stored_values_and_metadata_by_hand():
    dense = np.zeros((16, 16), np.float16)
    dense[0, :8] = [0, 5, 0, 7, 1, 0, 2, 0]
    dense[9, 12:] = [0, 0, 0, 3]
    values, metadata = sparse.compress(dense, F16)
    assert values[0, :4].tolist() == [5, 7, 1, 2]
    assert values[9, 6:].tolist() == [0, 3]
    # rows 0 and 8 stand in lane 0, rows 1 and 9 in lane 4; a chunk of zeros names places 0 and 1
    assert int(metadata[0]) == 0x4444_4444 & 0xFFFF_0000 | 0x448D
    assert int(metadata[4]) == 0xC444_4444
    assert (metadata.reshape(8, 4)[:, 1:] == 0).all()
    dense[0, 2] = -0.0  # a third zero, with a sign, has no room beside 5 and 7
    assert np.array_equal(sparse.compress(dense, F16)[0], values)
    dense[0, 8] = -0.0  # where there is room it is kept
    assert np.signbit(sparse.decompress(*sparse.compress(dense, F16), F16)[0, 8])


@pytest.mark.parametrize("selector", range(4))
def test_the_metadata_stands_in_the_lanes_of_its_selector(selector):
    rng = np.random.default_rng(4)
    dense = sparse.prune(rng.standard_normal((4, 16, 16)).astype(np.float16), F16)
    values, metadata = sparse.compress(dense[0], F16, selector)
    lanes = np.flatnonzero(metadata)
    assert lanes.tolist() == list(range(selector, 32, 4))
    # four tiles share one register of each lane
    joined = np.bitwise_or.reduce([sparse.compress(dense[f], F16, f)[1] for f in range(4)])
    for f in range(4):
        values = sparse.compress(dense[f], F16, f)[0]
        assert np.array_equal(sparse.decompress(values, joined, F16, f), dense[f])


@rows("instruction", VARIANTS[::5])
def test_every_choice_of_places_has_its_code(instruction):
    """Each set of units that may be kept, in one chunk: its metadata rises and is legal for both orders."""
    pattern, form = instruction.facts.pattern, instruction.types["a"]
    unit = 2 if pattern.chunk == 8 else 1
    units = pattern.chunk // unit
    one = form.encode(1) if form.kind == "float" else np.ones((), form.storage)
    for kept in combinations(range(units), units // 2):
        dense = np.zeros((16, instruction.shape.k), form.storage)
        places = [unit * u + e for u in kept for e in range(unit)]
        dense[3, places] = one
        matrix_ = form.matrix(dense)
        values, metadata = sparse.compress(matrix_, instruction)
        fragment = instruction.fragments["e"]
        lane, slot = fragment.layout.holders(0, 3, 0)[0]
        code = int(metadata[lane]) >> (4 * slot) & 15
        assert pattern.positions[code] == tuple(places)
        assert (bits(instruction, values)[3, : pattern.stored] == one).all()


@pytest.mark.parametrize("opcode", [F16, F16_K32, TF32, FP8, S4])
def test_a_product_of_what_was_compressed_is_that_of_the_dense_matrix(opcode):
    """Small integers are exact in any sum."""
    instruction = parse(opcode)
    rng = np.random.default_rng(6)
    fragments, (m, n, k) = instruction.fragments, instruction.shape
    dense = sparse.prune(rng.integers(-4, 5, (7, m, k)).astype(instruction.types["a"].dtype), opcode)
    b = rng.integers(-4, 5, (k, n)).astype(instruction.types["b"].dtype)
    values, metadata = sparse.compress(dense, opcode)
    c = fragments["c"].pack(np.zeros((m, n), instruction.types["c"].dtype))
    d = fragments["d"].unpack(run(opcode, fragments["a"].pack(values), fragments["b"].pack(b), c, metadata, 0))
    assert np.array_equal(d.astype(np.float64), dense.astype(np.float64) @ b.astype(np.float64))


def test_on_one_sum_sparse_and_dense_agree_to_the_bit():
    """m16n8k32 sparse sums 16 products on sm_90, as the dense m16n8k16 does with the rows of B that are met."""
    rng = np.random.default_rng(8)
    dense = sparse.prune(rng.standard_normal((16, 32)).astype(np.float16), F16_K32)
    b, c = rng.standard_normal((32, 8)).astype(np.float16), rng.standard_normal((16, 8)).astype(np.float32)
    values, metadata = sparse.compress(dense, F16_K32)
    instruction = parse(F16_K32)
    packed = [instruction.fragments[role].pack(x) for role, x in (("a", values), ("b", b), ("c", c))]
    d = instruction.fragments["d"].unpack(run(F16_K32, *packed, metadata, 0))
    for row in range(16):
        met = np.flatnonzero(dense[row])
        assert np.array_equal(values[row], dense[row, met])
        one = tcemu.matmul(
            np.tile(values[row], (16, 1)), b[met], np.tile(c[row], (16, 1)), instruction=HMMA, target="sm_90a"
        )
        assert np.array_equal(d[row].view(np.uint32), one[row].view(np.uint32))


def test_whole_matrices_in_tiles():
    rng = np.random.default_rng(2)
    large = sparse.prune(rng.standard_normal((48, 64)).astype(np.float16), F16)
    cut = sparse.tiles(large, F16)
    assert cut.shape == (3, 4, 16, 16)
    for i, j in np.ndindex(3, 4):
        assert np.array_equal(cut[i, j], large[16 * i : 16 * i + 16, 16 * j : 16 * j + 16])
    values, metadata = sparse.compress(cut, F16)
    assert values.shape == (3, 4, 16, 8)
    assert metadata.shape == (3, 4, 32)
    assert np.array_equal(sparse.decompress(values, metadata, F16), cut)


def test_nothing_comes_of_nothing():
    values, metadata = sparse.compress(np.zeros((0, 16, 16), np.float16), F16)
    assert values.shape == (0, 16, 8)
    assert metadata.shape == (0, 32)
    assert sparse.decompress(values, metadata, F16).shape == (0, 16, 16)


# Pruning --------------------------------------------------------------------------------------------------------------


def test_pruning_keeps_the_largest():
    x = np.array([[1, -3, 2, 0.5, 4, 4, 4, 4, np.nan, 9, -np.inf, 1]], np.float32)
    assert np.array_equal(
        sparse.prune(x, "2:4"), np.array([[0, -3, 2, 0, 4, 4, 0, 0, np.nan, 0, -np.inf, 0]], np.float32), equal_nan=True
    )
    assert sparse.prune(x[:, :8], "1:2").tolist() == [[0, -3, 2, 0, 4, 0, 4, 0]]
    pairs = np.array([[1, -1, 3, 0, 0, 0, 2, 2]])
    assert sparse.prune(pairs, "4:8").tolist() == [[0, 0, 3, 0, 0, 0, 2, 2]]
    assert x[0, 0] == 1  # the array that was given stays
    assert sparse.prune(x, "2:4").dtype == np.float32


def test_pruning_patterns_is_pruning_values():
    rng = np.random.default_rng(3)
    for opcode in (F16, TF32, FP8):
        form = parse(opcode).types["a"]
        values = rng.standard_normal((4, 16)).astype(form.dtype)
        patterns = sparse.prune(form.patterns(values).view(form.storage), opcode)
        assert patterns.dtype == form.storage
        assert np.array_equal(patterns, form.patterns(sparse.prune(values, opcode)))
        assert ((patterns != 0).reshape(4, -1, 4).sum(-1) == 2).all() or opcode == TF32


def test_huge_magnitudes_are_compared_too():
    assert sparse.prune(np.array([1e308, 1e308, np.inf, -1e308, 1, 1, 1, 1.0]), "4:8").tolist() == [
        1e308,
        1e308,
        np.inf,
        -1e308,
        0,
        0,
        0,
        0,
    ]


# Errors ---------------------------------------------------------------------------------------------------------------

FULL = np.zeros((16, 16), np.float16)
FULL[5, 8:11] = 1
ERRORS = {
    "too many in a chunk": (
        lambda: sparse.compress(FULL, F16),
        OperandError,
        [
            "row 5, chunk 2 (columns 8 to 11): 3 of 4 elements are not zero",
            "2:4 sparsity stores only 2",
            "`prune` keeps the largest",
        ],
    ),
    "in which matrix": (
        lambda: sparse.compress(np.stack([FULL * 0, FULL]), F16),
        OperandError,
        ["row 5 of matrix 1, chunk 2"],
    ),
    "in which of many": (
        lambda: sparse.compress(np.stack([FULL * 0, FULL])[None], F16),
        OperandError,
        ["row 5 of matrix (0, 1), chunk 2"],
    ),
    "both of two": (
        lambda: sparse.compress(np.ones((16, 8), np.float32), TF32),
        OperandError,
        ["row 0, chunk 0 (columns 0 to 1): 2 of 2 elements", "1:2 sparsity stores only 1"],
    ),
    "too many pairs": (
        lambda: sparse.compress(np.eye(16, 64, dtype=np.int8) + 1, S4),
        OperandError,
        ["4 of 4 pairs are not zero", "4:8 by pairs sparsity stores only 2"],
    ),
    "a NaN is not zero": (
        lambda: sparse.compress(np.full((16, 16), np.nan, np.float16), F16),
        OperandError,
        ["4 of 4 elements"],
    ),
    "half a matrix": (
        lambda: sparse.compress(np.zeros((16, 8), np.float16), F16),
        OperandError,
        ["takes matrices (..., 16, 16)", "got shape (16, 8)", "`tiles` divides"],
    ),
    "a row": (
        lambda: sparse.compress(np.zeros(16, np.float16), F16),
        OperandError,
        ["at least two axes", "got shape (16,)"],
    ),
    "another dtype": (
        lambda: sparse.compress(np.zeros((16, 16)), F16),
        OperandError,
        ["the dense A of", "float16", "got dtype float64", "Nothing is rounded"],
    ),
    "a dense instruction": (
        lambda: sparse.compress(FULL, HMMA),
        IllegalInstruction,
        ["has no sparse operand", "mma.sp"],
    ),
    "no instruction": (lambda: sparse.compress(FULL, "mma.sp"), IllegalInstruction, ["is missing"]),
    "a selector too large": (
        lambda: sparse.compress(FULL, F16, 4),
        OperandError,
        ["the selector is an immediate, 0, 1, 2 or 3", "got 4"],
    ),
    "metadata of other lanes": (
        lambda: sparse.decompress(FULL[:, :8], np.zeros(32, np.uint32), F16),
        OperandError,
        ["metadata of lane 0, bits 3:0 (row 0, chunk 0) is 0b0000"],
    ),
    "metadata of another dtype": (
        lambda: sparse.decompress(FULL[:, :8], np.zeros(32), F16),
        OperandError,
        ["metadata is one uint32 register per lane", "float64"],
    ),
    "values of the dense width": (
        lambda: sparse.decompress(FULL, np.zeros(32, np.uint32), F16),
        OperandError,
        ["takes stored values (..., 16, 8)", "got shape (16, 16)"],
    ),
    "axes that do not fit": (
        lambda: sparse.decompress(np.zeros((2, 16, 8), np.float16), np.full((3, 32), 0x44444444, np.uint32), F16),
        OperandError,
        ["do not broadcast", "values (2,)", "metadata (3,)"],
    ),
    "a chunk cut through": (
        lambda: sparse.prune(np.zeros((4, 6)), "2:4"),
        OperandError,
        ["chunks of 4", "got shape (4, 6)"],
    ),
    "a number": (lambda: sparse.prune(3.0, "2:4"), OperandError, ["chunks of 4", "got shape ()"]),
    "a name that is none": (
        lambda: sparse.prune(np.zeros(4), "2:5"),
        OperandError,
        ["no sparsity pattern is called '2:5'", "2:4, 1:2 and 4:8"],
    ),
    "words": (lambda: sparse.prune(["a", "b"], "2:4"), OperandError, ["arrays of real numbers"]),
    "complex numbers": (
        lambda: sparse.prune(np.zeros(4, complex), "2:4"),
        OperandError,
        ["arrays of real numbers", "complex"],
    ),
    "objects": (lambda: sparse.prune(np.zeros(4, object), "2:4"), OperandError, ["arrays of real numbers", "object"]),
    "tiles that do not fit": (
        lambda: sparse.tiles(np.zeros((20, 16)), F16),
        OperandError,
        ["rows must be a multiple of 16, that of columns of 16", "got shape (20, 16)"],
    ),
}


@pytest.mark.parametrize("mistake", ERRORS)
def test_what_cannot_be_compressed_is_explained(mistake):
    call, error, words = ERRORS[mistake]
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


ANYTHING = st.one_of(
    st.none(), st.integers(), st.text(), st.just(FULL), st.just(FULL[:, :8]), st.just([[1, 2], [3]]), st.just(object()),
    st.just(F16), st.just("2:4"), st.just(np.zeros(32, np.uint32)), st.just(np.zeros((2, 16, 16), ">u2")), st.just({}),
)  # fmt: skip


@given(st.lists(ANYTHING, min_size=4, max_size=4))
def test_anything_works_or_is_explained(odd):
    for call in (sparse.prune, sparse.tiles):
        assembler.only_tcemu_errors(call, *odd[:2])
        assembler.only_tcemu_errors(call, odd[0], F16)
    assembler.only_tcemu_errors(sparse.compress, *odd[:3])
    assembler.only_tcemu_errors(sparse.compress, odd[0], F16, odd[1])
    assembler.only_tcemu_errors(sparse.decompress, *odd)
    assembler.only_tcemu_errors(sparse.decompress, odd[0], odd[1], F16, 0)
