"""ldmatrix, stmatrix and movmatrix: which lane addresses which row and gets what, and errors that name the lane."""

import assembler
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples, some

import tcemu
from tcemu import OperandError, parse, run
from tcemu.instructions.matrix_move import LOAD, MOVE, STORE

LOADS, STORES = ([instruction for _, instruction in family.variants] for family in (LOAD, STORE))
X4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
X1 = X4.replace("x4", "x1")
ST4 = "stmatrix.sync.aligned.m8n8.x4.shared.b16"
ST1 = ST4.replace("x4", "x1")
MOV = "movmatrix.sync.aligned.m8n8.trans.b16"
WIDE = "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8"


def home(instruction):
    """A target that has the form."""
    return "sm_90a" if assembler.accepted(instruction, target="sm_90a") else "sm_100a"


def count(instruction):
    return int(instruction.words["num"][1:])


def rows_of(instruction):
    """Rows that lanes address: 8 a matrix, 16 with m16n16."""
    return (16 if instruction.words["shape"] == "m16n16" else 8) * count(instruction)


# Legality -------------------------------------------------------------------------------------------------------------


def test_the_forms_of_ptx_9_4():
    spaces = ("", ".shared", ".shared::cta")
    expected = {f"ldmatrix.sync.aligned.m8n16.{x}{space}.s8.s4" for x in ("x1", "x2", "x4") for space in spaces}
    assert {instruction.opcode for instruction in LOADS if instruction.words.get("src_fmt") == "s4"} == expected
    for other in ("m8n8.x1.s8.s4", "m16n16.x1.trans.shared.s8.s4", "m8n16.x1.shared.u8.u4", "m8n16.x1.trans.s8.s4"):
        assert assembler.parse_or_none(f"ldmatrix.sync.aligned.{other}") is None


@pytest.mark.parametrize("family", [LOAD, STORE, MOVE], ids=lambda family: family.name)
def test_what_is_not_in_the_table_is_refused_and_any_order_is_read(family):
    assembler.check_refusals(family, len(some(range(6), 2)))
    assembler.check_order(family, {"b8x16", "b6x16_p32", "b4x16_p64"})


def test_operands_are_those_that_the_assembler_takes():
    seen = 0
    for line, target, taken in assembler.operand_verdicts("ldmatrix", "stmatrix", "movmatrix"):
        opcode, counts, texts = assembler.vectors(line)
        instruction = assembler.parse_or_none(opcode)
        braces = any(isinstance(each, int) for each in counts) or "movmatrix" in opcode
        expected = [each for each in counts if isinstance(each, int)]
        if instruction is None or not braces:
            assert not taken
            continue
        held = next(iter(instruction.fragments.values())).registers
        right = expected in ([held], []) and assembler.accepted(instruction, target=target)
        assert right == taken, (line, texts)
        seen += 1
    assert seen >= 15


# Who gets what --------------------------------------------------------------------------------------------------------
# Written from the manual's figures: byte `e` of register `r` of a lane, out of rows (matrix, row) of 16 bytes.


def loaded(instruction, rows):
    """Registers (32, r) of rows (n, 16) of bytes, one lane after another."""
    words, matrices = instruction.words, count(instruction)
    shape, trans = words["shape"], "trans" in words
    per = rows.reshape(matrices, -1, 16)
    lanes = []
    for lane in range(32):
        g, t = divmod(lane, 4)
        registers = []
        for matrix in per:
            if shape == "m8n8":
                halves = matrix.view("<u2")
                pair = [halves[2 * t + j, g] if trans else halves[g, 2 * t + j] for j in range(2)]
                registers.append(int(pair[0]) | int(pair[1]) << 16)
                continue
            bytes_ = np.array([[element(instruction, line, i) for i in range(16)] for line in matrix])
            if shape == "m16n16":
                places = [[(4 * t + j, g + 8 * r) for j in range(4)] for r in range(2)]
            else:
                places = [[(g, 4 * t + j) for j in range(4)]]
            registers += [sum(int(bytes_[place]) << (8 * j) for j, place in enumerate(four)) for four in places]
        lanes.append(registers)
    return np.array(lanes, np.uint32)


def element(instruction, line, i):
    """Element i of a row as a byte; six- and four-bit elements follow each other, with padding behind them."""
    bits = {"b6x16_p32": 6, "b4x16_p64": 4, "s4": 4}.get(instruction.words.get("src_fmt"), 8)
    code = int.from_bytes(line.tobytes(), "little") >> (bits * i) & ((1 << bits) - 1)
    return code | 0xF0 if "s8" in instruction.words.values() and code >= 8 else code


@pytest.mark.parametrize("instruction", LOADS, ids=str)
def test_a_load_gives_each_lane_its_elements(instruction):
    rng = np.random.default_rng(1)
    shared = rng.integers(0, 256, 2048, np.uint8)
    needed = rows_of(instruction)
    addresses = np.full(32, 0xFFFFFFF1, np.uint32)  # lanes that are not needed may hold anything
    addresses[:needed] = 16 * rng.permutation(128)[:needed]
    got = run(instruction, addresses, shared=shared, target=home(instruction))
    rows = np.array([shared[a : a + 16] for a in addresses[:needed].tolist()])
    assert np.array_equal(got, loaded(instruction, rows))
    assert got.shape == (32, instruction.fragments["d"].registers)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_nibbles_of_packed_rows_become_signed_bytes(number):
    """Rows of eight bytes side by side: a lane gets four neighbours of a row, the first of a byte in its low half."""
    numbers = np.random.default_rng(6).integers(-8, 8, (number, 8, 16))
    shared = (numbers[..., ::2] & 15 | (numbers[..., 1::2] & 15) << 4).astype(np.uint8).reshape(-1)
    opcode = f"ldmatrix.sync.aligned.m8n16.x{number}.shared.s8.s4"
    got = run(opcode, np.arange(32) * 8, shared=shared)
    for matrix in range(number):
        for lane in range(32):
            told = numbers[matrix, lane // 4, 4 * (lane % 4) : 4 * (lane % 4) + 4]
            assert got[lane, matrix].tobytes() == told.astype(np.int8).tobytes()
    assert np.array_equal(parse(opcode).fragments["d"].unpack(got), numbers)
    with pytest.raises(OperandError, match="lane 1: address 4 is not a multiple of 8: a row of 8 bytes starts at"):
        run(opcode, np.arange(32) * 4, shared=shared)
    with pytest.raises(OperandError, match=f"lane {8 * number - 1}: .* lies outside shared="):
        run(opcode, np.arange(32) * 8, shared=shared[:-8])


def test_nibbles_of_an_octet_are_a_column_operand():
    """Two matrices side by side along k are B of m16n8k32, the purpose of the instruction."""
    mma = parse("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
    numbers = np.random.default_rng(7).integers(-8, 8, (8, 32))
    shared = (numbers[:, ::2] & 15 | (numbers[:, 1::2] & 15) << 4).astype(np.uint8).reshape(-1)
    addresses = np.arange(32) % 8 * 16 + np.arange(32) // 8 * 8
    got = run("ldmatrix.sync.aligned.m8n16.x2.shared.s8.s4", addresses, shared=shared)
    assert np.array_equal(mma.fragments["b"].unpack(got), numbers.T)


@pytest.mark.parametrize("instruction", STORES, ids=str)
def test_a_store_puts_each_lane_s_elements(instruction):
    rng = np.random.default_rng(2)
    needed = rows_of(instruction)
    registers = rng.integers(0, 2**32, (32, count(instruction)), np.uint64).astype(np.uint32)
    before = rng.integers(0, 256, 2048, np.uint8)
    addresses = np.full(32, 0xFFFFFFF1, np.uint32)
    addresses[:needed] = 16 * rng.permutation(128)[:needed]
    shared = before.copy()
    assert run(instruction, addresses, registers, shared=shared, target=home(instruction)) is None
    expected = before.copy()
    trans = "trans" in instruction.words
    for lane in range(32):
        g, t = divmod(lane, 4)
        for m in range(count(instruction)):
            if instruction.words["shape"] == "m8n8":
                for j in range(2):
                    row, column = (2 * t + j, g) if trans else (g, 2 * t + j)
                    at = int(addresses[8 * m + row]) + 2 * column
                    expected[at : at + 2] = np.frombuffer(registers[lane, m].tobytes(), np.uint8)[2 * j : 2 * j + 2]
            else:  # byte e of the accumulator layout, stored by columns
                for e in range(4):
                    row, column = g + 8 * (e >> 1), 2 * t + (e & 1)
                    expected[int(addresses[8 * m + column]) + row] = int(registers[lane, m]) >> (8 * e) & 255
    assert np.array_equal(shared, expected)


def test_movmatrix_transposes():
    rng = np.random.default_rng(3)
    a = rng.integers(0, 2**32, (5, 32, 1), np.uint64).astype(np.uint32)
    d = run(MOV, a)
    for lane in range(32):
        g, t = divmod(lane, 4)
        for j in range(2):
            source = a[:, 4 * (2 * t + j) + (g >> 1), 0] >> (16 * (g & 1)) & 0xFFFF
            assert np.array_equal(d[:, lane, 0] >> (16 * j) & 0xFFFF, source)
    assert np.array_equal(run(MOV, d), a)


@pytest.mark.parametrize("number", ["x1", "x2", "x4"])
def test_laws(number):
    """A store undoes a load, .trans of both undoes itself, and movmatrix is what .trans does to a matrix."""
    rng = np.random.default_rng(4)
    shared = rng.integers(0, 256, (6, 512), np.uint8)
    addresses = np.argsort(rng.random((6, 32)), axis=1).astype(np.uint32) * 16
    for trans in ("", ".trans"):
        d = run(f"ldmatrix.sync.aligned.m8n8.{number}{trans}.shared.b16", addresses, shared=shared)
        again = np.zeros_like(shared)
        run(f"stmatrix.sync.aligned.m8n8.{number}{trans}.shared.b16", addresses, d, shared=again)
        rows = 8 * int(number[1])
        written = np.zeros((6, 32), bool)
        np.put_along_axis(written, addresses[:, :rows].astype(int) // 16, values=True, axis=1)
        assert np.array_equal(again.reshape(6, 32, 16)[written], shared.reshape(6, 32, 16)[written])
        assert not again.reshape(6, 32, 16)[~written].any()
    plain = run(f"ldmatrix.sync.aligned.m8n8.{number}.shared.b16", addresses, shared=shared)
    for m in range(plain.shape[-1]):
        assert np.array_equal(run(MOV, plain[..., m : m + 1]), d[..., m : m + 1])


@pytest.mark.parametrize(
    ("lane", "address", "message"),
    [(3, 8, "lane 3 of warp 1400: address 8 is not a multiple of 16"), (7, 512, "address 512 lies outside"),
     (1, 0, "lanes 0 and 1 of warp 1400 store different rows at address 0")],
)  # fmt: skip
def test_what_is_refused_stores_nothing(lane, address, message):
    """One bad address behind many good warps: none of them has stored."""
    addresses = np.tile(np.arange(32) * 16, (1500, 1))
    addresses[1400, lane] = address
    registers = np.tile(np.arange(1, 33, dtype=np.uint32)[:, None], (1500, 1, 4))
    shared = np.zeros(512, np.uint8)
    with pytest.raises(OperandError, match=message):
        run(ST4, addresses, registers, shared=shared)
    assert not shared.any()
    run(ST4, addresses[:1400], registers[:1400], shared=shared)
    assert shared.any()


def test_the_state_spaces_are_one_shared_memory():
    shared = np.random.default_rng(5).integers(0, 256, 512, np.uint8)
    addresses = np.arange(32, dtype=np.uint64) * 16
    answers = [run(X4.replace(".shared", space), addresses, shared=shared) for space in ("", ".shared", ".shared::cta")]
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    for dtype in (np.int64, np.uint32, np.int16):
        assert np.array_equal(run(X4, addresses.astype(dtype), shared=shared), answers[0])
    assert np.array_equal(run(X4, addresses.tolist(), shared=shared), answers[0])


@examples(40)
@given(st.sampled_from([*LOADS, *STORES]), st.integers(0, 10**6), st.sampled_from([(), (3,), (2, 3), (0,)]))
def test_the_reference_answers_the_same(instruction, seed, lead):
    rng = np.random.default_rng(seed)
    shared = rng.integers(0, 256, (*lead[-1:], 1000), np.uint8)
    addresses = 16 * np.argsort(rng.random((*lead, 62)), axis=-1)[..., :32]
    held = rng.integers(0, 2**32, (*lead, 32, count(instruction)), np.uint64).astype(np.uint32)
    operands = (addresses, held) if instruction.family == "stmatrix" else (addresses,)
    one, two = shared.copy(), shared.copy()
    fast = run(instruction, *operands, shared=one, target=home(instruction))
    with pytest.MonkeyPatch.context() as patch:
        assembler.by_reference(patch)
        slow = run(instruction, *operands, shared=two, target=home(instruction))
    assert np.array_equal(one, two)
    assert fast is slow is None or np.array_equal(fast, slow)
    assert instruction.family == "stmatrix" or np.array_equal(one, shared)


# Many warps -----------------------------------------------------------------------------------------------------------


def test_the_axes_in_front_broadcast():
    rng = np.random.default_rng(6)
    shared = rng.integers(0, 256, (3, 512), np.uint8)
    addresses = 16 * np.argsort(rng.random((2, 1, 32)), axis=-1)
    d = run(X4, addresses, shared=shared)
    assert d.shape == (2, 3, 32, 4)
    for i, j in np.ndindex(2, 3):
        assert np.array_equal(d[i, j], run(X4, addresses[i, 0], shared=shared[j]))
    assert run(X4, addresses[:0], shared=shared).shape == (0, 3, 32, 4)
    one = run(X4, addresses[:, 0], shared=shared[0])
    assert np.array_equal(one, d[:, 0])
    strided = np.zeros((3, 1024), np.uint8)
    strided[:, ::2] = shared
    assert np.array_equal(run(X4, addresses, shared=strided[:, ::2]), d)


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "reference"])
def test_stores_change_the_array_that_was_given(kernels, monkeypatch):
    if not kernels:
        assembler.by_reference(monkeypatch)
    rng = np.random.default_rng(7)
    addresses, held = 16 * np.arange(32), rng.integers(0, 2**31, (3, 32, 4)).astype(np.uint32)
    flat = np.zeros((3, 515), np.uint8)  # a size that is not a multiple of a word
    run(ST4, addresses, held, shared=flat)
    for make in (lambda: np.zeros((3, 1030), np.uint8)[:, ::2], lambda: np.zeros((515, 3), np.uint8).T):
        view = make()
        assert not view.flags.c_contiguous
        run(ST4, addresses, held, shared=view)
        assert np.array_equal(view, flat)
    assert np.array_equal(run(X4, addresses, shared=flat), held)
    # several warps of one block store into one memory
    block = np.zeros(1536, np.uint8)
    run(ST4, addresses + 512 * np.arange(3)[:, None], held, shared=block)
    assert np.array_equal(block.reshape(3, 512), flat[:, :512])


def test_more_warps_than_a_chunk():
    rng = np.random.default_rng(8)
    shared = rng.integers(0, 256, 4096, np.uint8)
    addresses = 16 * rng.integers(0, 256, (3000, 32))
    d = run(X4, addresses, shared=shared)
    assert np.array_equal(d[2500], run(X4, addresses[2500], shared=shared))
    addresses[2500, 9] = 4088
    with pytest.raises(OperandError, match="lane 9 of warp 2500: address 4088 is not a multiple of 16"):
        run(X4, addresses, shared=shared)
    held = np.zeros((3000, 32, 4), np.uint32)
    addresses = np.broadcast_to(16 * np.arange(32), (3000, 32)).copy()
    addresses[2700, 5], held[2700, 4, 0] = 0, 1
    with pytest.raises(OperandError, match="lanes 0 and 5 of warp 2700 store different rows at address 0"):
        run(ST4, addresses, held | np.arange(32, dtype=np.uint32)[:, None], shared=shared)


# Errors ---------------------------------------------------------------------------------------------------------------


def at(**lanes):
    """Addresses 16 * lane, some of them replaced."""
    addresses = np.arange(32, dtype=np.int64) * 16
    for lane, address in lanes.items():
        addresses[int(lane[4:])] = address
    return addresses


def zeros(*shape, dtype=np.uint32):
    return np.zeros(shape, dtype)


SHARED = zeros(512, dtype=np.uint8)
READ_ONLY = SHARED.copy()
READ_ONLY.flags.writeable = False
DIFFERENT = np.arange(128, dtype=np.uint32).reshape(32, 4)

BAD = {
    "no operands": (X4, (), {"shared": SHARED}, ["takes the addresses of rows (..., 32)", "got 0 operands"]),
    "registers for a load": (X4, (at(), DIFFERENT), {"shared": SHARED}, ["got 2 operands"]),
    "no registers for a store": (
        ST4,
        (at(),),
        {"shared": SHARED},
        ["addresses of rows (..., 32) and registers", "got 1 operands"],
    ),
    "no memory": (X4, (at(),), {}, ["needs the bytes it addresses: shared=", "got nothing"]),
    "no memory for generic addresses": (
        X4.replace(".shared", ""),
        (at(),),
        {},
        ["needs the bytes it addresses: shared="],
    ),
    "global memory": (X4, (at(),), {"memory": SHARED}, ["does not take memory=", "it accesses shared"]),
    "both memories": (X4, (at(),), {"shared": SHARED, "memory": SHARED}, ["does not take memory="]),
    "memory for movmatrix": (MOV, (zeros(32, 1),), {"shared": SHARED}, ["does not take shared=", "registers only"]),
    "words of memory": (
        X4,
        (at(),),
        {"shared": zeros(128)},
        ["shared= must be a uint8 array (..., bytes)", "dtype uint32"],
    ),
    "a list as memory": (X4, (at(),), {"shared": [0] * 512}, ["shared= must be a uint8 array", "list"]),
    "bytes as memory": (X4, (at(),), {"shared": bytes(512)}, ["shared= must be a uint8 array", "bytes"]),
    "one byte": (
        X4,
        (at(),),
        {"shared": np.zeros((), np.uint8)},
        ["shared= must be a uint8 array (..., bytes)", "shape ()"],
    ),
    "an odd address": (
        X4,
        (at(lane9=152),),
        {"shared": SHARED},
        [
            "lane 9: address 152 is not a multiple of 16",
            "a row of 16 bytes starts at a multiple of 16",
            "PTX ISA 9.1, 9.7.14.5.15",
        ],
    ),
    "an address behind the end": (
        X4,
        (at(lane31=512),),
        {"shared": SHARED},
        ["lane 31: address 512 lies outside shared= (512 bytes, 16 needed)"],
    ),
    "a row over the end": (
        X4,
        (at(),),
        {"shared": SHARED[:500]},
        ["lane 31: address 496 lies outside shared= (500 bytes, 16 needed)"],
    ),
    "a negative address": (X4, (at(lane0=-16),), {"shared": SHARED}, ["lane 0: address -16 lies outside"]),
    "a huge address": (
        X4,
        (at(lane0=2**63 - 16),),
        {"shared": SHARED},
        ["lane 0: address 9223372036854775792 lies outside"],
    ),
    "an address of 64 bits": (X4, (np.full(32, 2**64 - 16, np.uint64),), {"shared": SHARED}, ["lane 0: address"]),
    "in which warp": (X4, (np.stack([at(), at(lane3=8)]),), {"shared": SHARED}, ["lane 3 of warp 1: address 8"]),
    "no memory at all": (
        X1,
        (at(),),
        {"shared": SHARED[:0]},
        ["lane 0: address 0 lies outside shared= (0 bytes, 16 needed)"],
    ),
    "addresses of 8 lanes": (
        X1,
        (at()[:8],),
        {"shared": SHARED},
        ["addresses must be (..., 32), one for each lane", "shape (8,)"],
    ),
    "one address": (X1, (0,), {"shared": SHARED}, ["addresses must be (..., 32)", "shape ()"]),
    "addresses of floats": (
        X1,
        (at().astype(np.float64),),
        {"shared": SHARED},
        ["addresses must be integers", "float64"],
    ),
    "addresses in words": (X1, (["a"] * 32,), {"shared": SHARED}, ["addresses must be integers"]),
    "no addresses": (X1, (None,), {"shared": SHARED}, ["addresses must be integers", "object"]),
    "too few registers to store": (
        ST4,
        (at(), zeros(32, 1)),
        {"shared": SHARED},
        ["operand a", "1 register a lane where 4 are needed"],
    ),
    "a store to read-only memory": (
        ST1,
        (at(), zeros(32, 1)),
        {"shared": READ_ONLY},
        ["stores to shared=, but that array is read-only"],
    ),
    "overlapping rows": (
        ST4,
        (at(lane5=0), DIFFERENT),
        {"shared": SHARED},
        ["lanes 0 and 5 store different rows at address 0", "which one remains is undefined", "9.7.14.5.16"],
    ),
    "an odd address to store to": (
        ST4,
        (at(lane5=4), DIFFERENT),
        {"shared": SHARED},
        ["lane 5: address 4 is not a multiple of 16", "PTX ISA 9.1, 9.7.14.5.16"],
    ),
    "warps that do not fit": (
        ST1,
        (zeros(2, 32), zeros(3, 32, 1)),
        {"shared": zeros(5, 512, dtype=np.uint8)},
        ["do not broadcast", "addresses (2,)", "registers (3,)", "shared (5,)"],
    ),
    "movmatrix of nothing": (
        MOV,
        (),
        {},
        ["takes the registers of one matrix and returns its transpose", "got 0 operands"],
    ),
    "movmatrix of four": (MOV, (zeros(32, 4),), {}, ["operand a", "4 registers a lane where 1 is needed"]),
}


@pytest.mark.parametrize("mistake", BAD)
def test_what_does_not_fit_is_explained(mistake):
    opcode, operands, memories, words = BAD[mistake]
    before = SHARED.copy()
    with pytest.raises(OperandError) as error:
        run(opcode, *operands, **memories)
    for word in words:
        assert word in str(error.value)
    assert np.array_equal(SHARED, before)


def test_rows_that_are_the_same_may_overlap():
    shared = np.zeros(512, np.uint8)
    run(ST4, at(lane5=0), zeros(32, 4), shared=shared)
    run(ST4, at(lane5=0), np.tile(np.arange(4, dtype=np.uint32), (32, 1)), shared=shared)


@pytest.mark.parametrize("opcode", [X1, X1.replace("x1", "x2"), X1.replace("x1", "x1.trans")])
def test_turing_looks_at_every_lane(opcode):
    """sm_75: all lanes must hold valid addresses, needed or not; from sm_80 on the others are ignored."""
    shared = np.random.default_rng(9).integers(0, 256, 512, np.uint8)
    good = run(opcode, at(), shared=shared, target="sm_75")
    for address in (8, 512, -16):
        bad = at(lane20=address)
        assert np.array_equal(run(opcode, bad, shared=shared, target="sm_80"), good)
        with pytest.raises(OperandError, match=f"lane 20: address {address}"):
            run(opcode, bad, shared=shared, target="sm_75")


def test_transposing_bytes_needs_the_wide_form():
    """8-bit elements: .trans of m8n8 moves 16 bits at a time, m16n16 single bytes."""
    shared = np.arange(256, dtype=np.uint8)
    d = run(WIDE, at(), shared=shared, target="sm_100a")
    matrix = shared.reshape(16, 16)
    assert d.view(np.uint8).reshape(32, 2, 4)[5, 1].tolist() == matrix[4:8, 9].tolist()


ODD = st.one_of(
    st.none(), st.integers(), st.text(), st.floats(), st.just(at()), st.just(zeros(32, 4)), st.just(zeros(32, 1)),
    st.just(zeros(0, 32)), st.just(np.full(32, np.iinfo(np.uint64).max)), st.just([[1], [1, 2]]), st.just(object()),
    st.just(zeros(2, 32, 4)), st.just(np.full(32, 2**62)), st.just(np.full(32, -(2**63))),
)  # fmt: skip
MEMORY = st.one_of(
    st.none(), st.just(SHARED.copy()), st.just(READ_ONLY), st.just(zeros(3, 64, dtype=np.uint8)), st.just(SHARED[:7]),
    st.just("x"), st.just(zeros(0, 512, dtype=np.uint8)), st.just(np.zeros((512, 2), np.uint8).T),
)  # fmt: skip


@given(
    st.sampled_from([X4, X1, ST4, ST1, MOV, WIDE]),
    st.lists(ODD, max_size=3),
    MEMORY,
    st.sampled_from(["sm_75", "sm_90a", "sm_100a"]),
)
def test_anything_runs_or_is_explained(opcode, operands, memory, target):
    assembler.only_tcemu_errors(run, opcode, *operands, shared=memory, target=target)
    assembler.only_tcemu_errors(run, opcode, at(), *operands[:1], shared=memory, target=target)


def test_elements_are_called_what_the_opcode_calls_them():
    with pytest.raises(OperandError, match=r"operand a \(b16\) must be uint32 registers"):
        run(MOV, zeros(32, 1, dtype=np.float16))
    for instruction in (*LOADS, *STORES, parse(MOV)):
        element = "s8" if instruction.words.get("src_fmt") == "s4" else "b8"
        called = {fragment.type for fragment in instruction.fragments.values()}
        assert called == {instruction.words.get("type", element)}
        assert all(f" {name}, " in repr(fragment) for name in called for fragment in instruction.fragments.values())


def test_each_form_is_of_its_family():
    for instruction in (*LOADS, *STORES):
        assert parse(instruction.opcode).family in ("ldmatrix", "stmatrix")
    assert tcemu.parse(MOV).family == "movmatrix"
