"""Wavefronts of shared-memory accesses: recorded cycles, cases counted by hand, a second count, laws, errors."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import GOLDEN
from quick import examples
from wavefront_questions import questions

import tcemu
from tcemu import wavefronts
from tcemu.errors import IllegalInstruction, OperandError, TcemuError
from tcemu.instructions import FAMILIES
from tcemu.timing.banks import WAYS, access_named, in_pairs

LANE = np.arange(32, dtype=np.int64)

LDM, STM = "ldmatrix.sync.aligned.{}.shared.{}", "stmatrix.sync.aligned.{}.shared.{}"
X1, X2, X4 = (LDM.format(f"m8n8.{num}", "b16") for num in ("x1", "x2", "x4"))
X4_TRANS = LDM.format("m8n8.x4.trans", "b16")
#: Accesses that differ in operation, bytes a lane or lanes with addresses.
KINDS = [
    "ld.shared.u8", "ld.shared.b16", "ld.shared.b32", "ld.shared.v2.b32", "ld.shared.b64", "ld.shared.v4.f32",
    "st.shared.u8", "st.shared.v4.b8", "st.shared.f32", "st.shared.v2.u32", "st.shared.v2.f64",
    X1, X2, X4, X4_TRANS, LDM.format("m16n16.x1.trans", "b8"), LDM.format("m8n16.x2", "b8x16.b4x16_p64"),
    STM.format("m8n8.x2", "b16"), STM.format("m16n8.x4.trans", "b8"),
]  # fmt: skip


# ---------------------------------------------------------------------------------------------- recorded cycles


def recorded():
    """Return (access, addresses, wavefronts as a lone warp sees them) of the recording."""
    with np.load(GOLDEN / "sm_90a-wavefronts.npz") as file:
        for access in dict.fromkeys(key.split("|")[0] for key in file):
            yield access, file[f"{access}|addresses"], (file[f"{access}|cycles"] / 128 - 0.3) / 2


def test_an_h200_takes_the_cycles_that_were_counted():
    """A lone warp issues no faster than 2 wavefronts; above that each costs 2 cycles."""
    checked = 0
    for access, addresses, seen in recorded():
        count = wavefronts(addresses, access).count
        assert (np.round(seen) == np.maximum(count, 2)).all(), access
        assert np.abs(seen - count)[count > 2].max() < 0.2, access
        checked += len(addresses)
    assert checked == 7 * 64


def test_an_h200_joins_parts_of_a_broadcast_only():
    """Parts become one where all lanes agree; that two of them read the same words is not enough."""
    for access, addresses, seen in recorded():
        kind = access_named(access)
        lanes = {X1: 8, X2: 16}.get(access, 32)
        per = addresses.astype(np.int64)[:, :lanes].reshape(len(addresses), -1, kind.part)
        uniform = (per == per[:, :1, :1]).all(axis=(1, 2))
        words = [[set(part) for part in warp] for warp in per.tolist()]
        same = np.array([len(warp) > 1 and all(part == warp[0] for part in warp) for warp in words]) & ~uniform
        plain = np.array([sum(plain_part(part, kind.bytes) for part in warp) for warp in per.tolist()])
        if kind.pairs:
            assert uniform.any()
            assert same.any()
            assert (in_pairs(kind, addresses.astype(np.int64)[:, :lanes]) == uniform).all(), access
        assert (np.round(seen) == np.maximum(plain, 2))[same].all(), access
        if access == V4:
            assert (np.round(seen[uniform]) == 2).all()
        if access in (X4, X4_TRANS):
            assert (np.round(seen[uniform]) == 4).all()


# ---------------------------------------------------------------------------------------------- counted by hand


BY_HAND = [
    # 32 bits: the column of a matrix with rows of 32 words, then padded to 33, then swizzled
    ("ld.shared.b32", LANE * 128, 32),
    ("ld.shared.b32", LANE * 132, 1),
    ("ld.shared.b32", LANE * 128 ^ LANE * 4, 1),
    ("ld.shared.b32", LANE * 4, 1),
    ("ld.shared.b32", LANE * 8, 2),
    ("ld.shared.b32", LANE * 12, 1),
    ("ld.shared.b32", LANE * 16, 4),
    ("ld.shared.b32", LANE * 0 + 64, 1),
    ("ld.shared.b32", LANE % 2 * 128, 2),
    ("ld.shared.b32", LANE[::-1] * 4, 1),
    ("st.shared.f32", LANE * 256, 32),
    ("st.shared.s32", LANE // 4 * 4, 1),
    # bytes and halves: lanes of one word go together
    ("ld.shared.u8", LANE, 1),
    ("ld.shared.u8", LANE * 4, 1),
    ("ld.shared.u8", LANE * 128 + LANE % 4, 32),
    ("ld.shared.b16", LANE * 2, 1),
    ("st.shared.v2.b16", LANE * 64, 16),
    # 64 bits: half-warps
    ("ld.shared.b64", LANE * 8, 2),
    ("ld.shared.v2.f32", LANE * 16, 4),
    ("ld.shared.v2.f32", LANE * 128, 32),
    ("ld.shared.v2.f32", LANE * 0, 1),
    ("ld.shared.v2.f32", LANE // 2 * 8, 1),
    ("ld.shared.f64", LANE // 16 * 128, 2),
    ("ld.shared.f64", LANE // 16 * 8, 1),
    ("ld.shared.f64", LANE % 16 * 8, 2),
    ("st.shared.v2.f32", LANE * 0, 2),
    # 128 bits: quarter-warps
    ("ld.shared.v4.f32", LANE * 16, 4),
    ("ld.shared.v4.f32", LANE * 32, 8),
    ("ld.shared.v4.f32", LANE * 128, 32),
    ("ld.shared.v4.f32", LANE * 0, 2),
    ("ld.shared.v4.f32", LANE // 2 * 16, 2),
    ("ld.shared.v4.f32", LANE % 2 * 16, 2),
    ("ld.shared.v4.f32", LANE % 4 * 16, 4),
    ("ld.shared.v2.b64", LANE // 16 * 128, 2),
    ("ld.shared.b128", LANE // 2 * 128, 16),
    ("st.shared.v4.b32", LANE * 16, 4),
    ("st.shared.v4.b32", LANE * 0, 4),
    # matrices: rows of a tile of 64 f16, then padded by 16 bytes, then swizzled
    (X1, LANE * 128, 8),
    (X1, LANE * 16, 1),
    (X2, LANE * 128, 16),
    (X4, LANE * 128, 32),
    (X4, LANE * 144, 4),
    (X4, LANE * 128 + ((LANE % 8) << 4), 4),
    (X4, LANE * 64, 16),
    (X4, LANE * 0, 4),
    (X4_TRANS, LANE * 256, 32),
    (X1, np.where(LANE < 8, LANE * 16, -7), 1),
    (LDM.format("m16n16.x1.trans", "b8"), LANE * 128, 16),
    (STM.format("m8n8.x4", "b16"), LANE * 128, 32),
    (STM.format("m16n8.x2.trans", "b8"), LANE * 16, 2),
]


@pytest.mark.parametrize(("access", "addresses", "count"), BY_HAND)
def test_counted_by_hand(access, addresses, count):
    assert wavefronts(addresses, access).count == count
    assert type(wavefronts(addresses, access).count) is int


@pytest.mark.parametrize("question", list(questions()), ids=lambda question: f"{question.access} {question.name}")
def test_questions_for_a_gpu_tell_two_rules_apart(question):
    assert wavefronts(question.addresses, question.access).count == question.ours != question.other
    assert min(question.ours, question.other) > 2  # what a lone warp can see


MEASURED = json.loads((GOLDEN / "sm_90a-wavefronts.json").read_text())["cycles"]


@pytest.mark.parametrize(("question", "answer"), list(zip(questions(), MEASURED, strict=True)))
def test_the_questions_were_answered_by_an_h200(question, answer):
    assert (question.access, question.name) == (answer["access"], answer["question"])
    wavefronts_seen = (answer["cycles"] / 128 - 0.3) / 2
    if question.access.startswith("ld"):
        assert abs(wavefronts_seen - question.ours) < 0.05
    else:  # stores are not waited for, so their cycles only tell one rule from the other
        assert abs(wavefronts_seen - question.ours) < abs(wavefronts_seen - question.other)


# ---------------------------------------------------------------------------------------------- a second count


def plain_part(addresses, size):
    """Return the wavefronts of one part, word by word."""
    words = {word for address in addresses for word in range(address // 4, (address + size - 1) // 4 + 1)}
    return max(sum(word % 32 == bank for word in words) for bank in range(32))


def plain(addresses, size, lanes, pairs):
    """Return the wavefronts of one warp by the rule as written in the text, for `lanes` lanes."""
    part = min(32, 128 // max(size, 4))
    agree = [all(addresses[n] == addresses[n ^ partner] for n in range(lanes)) for partner in (1, 2)]
    part *= 2 if pairs and size >= 8 and any(agree) else 1
    return sum(plain_part(addresses[start : start + part], size) for start in range(0, lanes, part))


def addresses_of(size):
    """Multiples of `size`, crowded enough for conflicts, broadcasts and pairs."""
    item = st.integers(0, 40).map(lambda n: n % 8 * 128 + n // 8 * size)
    patterns = [[*range(32)], [n // 2 for n in range(32)], [n // 4 * 2 + n % 2 for n in range(32)], [0] * 32]
    some = st.lists(item, min_size=32, max_size=32)
    return st.tuples(some, st.sampled_from(patterns)).map(lambda drawn: [drawn[0][n] for n in drawn[1]])


@pytest.mark.parametrize("access", KINDS)
@examples(30)
@given(data=st.data())
def test_equals_a_count_in_plain_python(access, data):
    kind = access_named(access)
    addresses = data.draw(addresses_of(kind.bytes))
    result = wavefronts(addresses, access)
    assert result.count == plain(addresses, kind.bytes, kind.lanes, pairs=access.startswith("ld."))
    assert sum(part.wavefronts for part in result.parts) == result.count
    assert [lane for part in result.parts for lane in part.lanes] == list(range(kind.lanes))


# ---------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("access", KINDS)
@examples(30)
@given(data=st.data())
def test_laws(access, data):
    kind = access_named(access)
    addresses = np.array(data.draw(addresses_of(kind.bytes)))
    result = wavefronts(addresses, access)
    assert len(result.parts) == result.least <= result.count <= kind.lanes
    # Moving everything by whole rows of banks changes nothing; by less, only which bank is the busiest.
    assert wavefronts(addresses + 128, access).count == result.count
    assert wavefronts(addresses + kind.granule, access).count == result.count
    # Lanes of one part may change places; where pairs would join parts, only pairs may.
    shuffled = addresses.copy()
    for part in result.parts:
        lanes = np.array(part.lanes)
        blocks = lanes.reshape(-1, 4 if kind.pairs else 1)
        shuffled[lanes] = addresses[np.concatenate(data.draw(st.permutations(blocks.tolist())))]
    assert wavefronts(shuffled, access).count == result.count
    # One address for everybody is free.
    uniform = wavefronts(np.full(32, addresses[0]), access)
    assert uniform.count == uniform.least == kind.parts // (2 if kind.pairs else 1)
    # A warp among others counts as it does alone.
    assert wavefronts([addresses, shuffled], access)[0] == result


@pytest.mark.parametrize("access", KINDS)
def test_many_warps_are_one_call(access):
    kind = access_named(access)
    addresses = np.random.default_rng(1).integers(0, 200, (2, 3, 32)) * kind.bytes
    result = wavefronts(addresses, access)
    assert result.count.shape == (2, 3) == np.shape(result.least)
    for warp in np.ndindex(2, 3):
        assert result[warp] == wavefronts(addresses[warp], access)
        assert result[warp].count == result.count[warp]
    assert [row.addresses.shape for row in result] == [(3, 32)] * 2
    assert wavefronts(np.zeros((0, 32), int), access).count.shape == (0,)


# ---------------------------------------------------------------------------------------------- the result


def test_it_says_who_fights_for_what():
    addresses = np.where(LANE < 4, LANE % 2 * 128, LANE * 4)
    result = wavefronts(addresses, "ld.shared.b32")
    (part,) = result.parts
    assert (part.wavefronts, part.bank) == (2, 0)
    assert result.table == ((0, 0, 0, (0, 2)), (0, 0, 128, (1, 3)))
    assert str(result) == (
        "ld.shared.b32: 2 wavefronts, where 1 would do\n"
        "part 0, lanes 0-31: 2 wavefronts; busiest: bank 0\n"
        "    word 0x00000 in bank  0: lanes 0, 2\n"
        "    word 0x00080 in bank  0: lanes 1, 3\n"
        "hint: padding, 4 bytes after every 128 (address + address // 128 * 4): 1 wavefront; "
        "XOR swizzle, address ^ (address >> 5 & 0x7c): 1 wavefront\n"
        "known: silicon"
    )
    assert repr(result) == "<ld.shared.b32: 2 wavefronts, 1 without conflicts>"


def test_a_hint_is_true():
    """What the hint promises holds: its formula is Python."""
    for access, addresses, _ in BY_HAND:
        result = wavefronts(addresses, access)
        assert bool(result.hint) == (result.count != result.least)
        for remedy in result.hint.split("; ") if "address" in result.hint else ():
            text, promised = remedy.rsplit(": ", 1)
            formula = text[text.index("address") :].removesuffix(")") if "padding" in text else text.split(", ", 1)[1]
            moved = eval(formula, {"address": addresses})  # noqa: S307
            assert wavefronts(moved, access).count == int(promised.split()[0]) < result.count


def test_the_textbook_remedies_are_found():
    assert wavefronts(LANE * 128, X4).hint == (
        "padding, 16 bytes after every 128 (address + address // 128 * 16): 4 wavefronts; "
        "XOR swizzle, address ^ (address >> 3 & 0x70): 4 wavefronts"
    )


def test_evidence_is_told():
    assert wavefronts(LANE * 16, "ld.shared.v4.b32").known == "silicon"
    assert wavefronts(LANE * 0, "ld.shared.v4.b32").known == "silicon"
    assert wavefronts(LANE // 2 * 16, "ld.shared.v4.b32").known == "silicon"
    assert wavefronts(LANE * 16, "st.shared.v4.b32").known == "inferred"
    assert wavefronts(LANE // 2 * 128, "ld.shared.v4.b32").known == "silicon"  # the same count with and without pairs
    assert wavefronts(LANE * 16, X4).known == "silicon"


def test_a_result_is_a_value():
    given_addresses = LANE * 4
    result = wavefronts(given_addresses, "ld.shared.b32")
    given_addresses[0] = 128
    assert result == wavefronts(LANE * 4, "ld.shared.b32")
    assert hash(result) == hash(wavefronts(LANE * 4, "ld.shared.b32"))
    assert result != wavefronts(LANE * 4, "st.shared.b32")
    assert result != 1
    many = wavefronts([LANE * 4, LANE * 8], "ld.shared.b32")
    assert repr(many) == str(many) == "<ld.shared.b32: 2 warps, 1 to 2 wavefronts, 3 in all>"
    for array in (result.addresses, many.count, many[0:1].addresses):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        result.count = 3


def test_any_order_of_qualifiers():
    assert wavefronts(LANE * 16, "ldmatrix.x4.m8n8.sync.aligned.b16.shared").access.spelling == X4
    assert wavefronts(LANE * 16, "ld.shared::cta.volatile.b32.v4;").access.spelling == "ld.volatile.shared::cta.v4.b32"
    assert wavefronts(LANE * 16, tcemu.parse(X4)) == wavefronts(LANE * 16, X4)


def test_every_matrix_instruction_has_a_row():
    names = {"ldmatrix", "stmatrix"}
    forms = [variant for family in FAMILIES if family.name in names for _, variant in family.variants]
    assert {form.family for form in forms} <= set(WAYS)
    assert all(wavefronts(LANE * 16, form).count == wavefronts(LANE * 16, form.opcode).count for form in forms)


# ---------------------------------------------------------------------------------------------- errors


V4 = "ld.shared.v4.b32"
ERRORS = [
    (LANE, "ld.shared.v4.b64", IllegalInstruction, r"\.v4 cannot be combined .* Nearest legal form: ld\.shared\.v2\."),
    (LANE, "ld.shared.v4", IllegalInstruction, r"the \.type qualifier is missing"),
    (LANE, "ld.global.v4.b32", IllegalInstruction, r"no banks\. Nearest access: ld\.shared\.v4\.b32"),
    (LANE, "ld.shared::cluster.b32", IllegalInstruction, r"cluster's other.* access: ld\.shared\.b32"),
    (LANE, "lds.128", IllegalInstruction, "Did you mean 'ld'"),
    (LANE, "sts.shared.f64", IllegalInstruction, "Did you mean 'st'"),
    (LANE, "ld.shared.f16", IllegalInstruction, r"not a qualifier of ld.* Nearest legal form: ld\.shared\."),
    (LANE, "", IllegalInstruction, "an empty string"),
    (LANE, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", IllegalInstruction, "is not an access to shared memory"),
    (LANE, "x" * 10_000, IllegalInstruction, r"xxx\.\.\.: no instruction is called"),
    (LANE, None, IllegalInstruction, "must be a string.*NoneType"),
    (LANE, "ldmatrix.sync.aligned.m8n8.x3.shared.b16", IllegalInstruction, "x3"),
    (LANE, "ldmatrix.sync.aligned.m8n8.x4.global.b16", IllegalInstruction, "global"),
    (LANE[:16], V4, OperandError, r"shape \(\.\.\., 32\).*got \(16,\)"),
    (5, V4, OperandError, r"got \(\)"),
    (LANE[:8] * 16, X1, OperandError, "uses those of lanes 0-7"),
    (LANE * 16.0, V4, OperandError, "integers.*float64"),
    (LANE > 3, V4, OperandError, "integers.*bool"),
    ([1 << 70] * 32, V4, OperandError, "integers.*object"),
    ([[0] * 32, [0]], V4, OperandError, "not an array of 32 integers"),
    (LANE * 16 - 32, V4, OperandError, "lane 0: address -0x20 .* is negative"),
    (LANE * 16 + (1 << 32), V4, OperandError, "lane 0: address 0x100000000 .* 32 bits"),
    (LANE * 8, V4, OperandError, r"lane 1: address 0x8 \(8\) is misaligned: ld.shared.v4.b32 moves 16 bytes per lane"),
    (LANE * 4, "st.shared.b64", OperandError, "lane 1: .*moves 8 bytes"),
    (LANE * 8, X4, OperandError, "lane 1: .*rows of 16 bytes"),
    (np.stack([LANE * 16, LANE * 8])[None], V4, OperandError, "warp 0, 1, lane 1: address 0x8"),
]


@pytest.mark.parametrize(("addresses", "access", "error", "message"), ERRORS)
def test_errors_teach(addresses, access, error, message):
    with pytest.raises(error, match=message):
        wavefronts(addresses, access)


@pytest.mark.parametrize("what", ["parts", "table", "hint", "known"])
def test_an_explanation_is_of_one_warp(what):
    with pytest.raises(OperandError, match=rf"use result\[i\]\.{what}"):
        getattr(wavefronts([LANE * 4], "ld.shared.b32"), what)


def test_one_warp_has_no_parts():
    result = wavefronts(LANE * 4, "ld.shared.b32")
    for use in (len, list, lambda result: result[0]):
        with pytest.raises(OperandError, match="one warp"):
            use(result)
    assert result


class Odd:
    """An object that fails wherever it is taken for a number."""

    def __repr__(self):
        raise KeyError("no name")

    def __index__(self):
        raise ZeroDivisionError("no index")

    __array__ = __index__


NO_INDEX = {
    "too far": 3, "too far back": -4, "too many": (0, 0), "text": "x", "a fraction": 1.5, "a long integer": 10**30,
    "an integer without a repr": 10**5000, "a ragged list": [[0], [1, 2]], "one too far": [0, 7],
    "no step": slice(None, None, 0), "a step of text": slice(10**30, None, "a"), "too many truths": np.ones(4, bool),
    "a numpy fraction": np.float64(1), "an object": object(), "an object that fails": Odd(), "a dictionary": {"a": 1},
    "a date": (slice(None), np.datetime64("2020-01-01", "D")),
}  # fmt: skip


@pytest.mark.parametrize("index", NO_INDEX.values(), ids=NO_INDEX)
def test_what_is_no_index_of_a_warp_is_told(index):
    result = wavefronts([LANE * 4] * 3, "ld.shared.b32")
    with pytest.raises((IndexError, OperandError), match=r"of a result of \(3,\) warps: ."):
        result[index]


def test_an_index_that_is_not_there_ends_what_iterates():
    result = wavefronts([LANE * 4] * 3, "ld.shared.b32")
    with pytest.raises(IndexError, match=r"index 3 of a result of \(3,\) warps: index 3 is out of bounds"):
        result[3]
    assert len(list(result)) == 3
    assert result[np.array([2, 0])].count.tolist() == [1, 1]
    assert result[None, 1:].addresses.shape == (1, 2, 32)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=6,
)
VOCABULARIES = [family.spelling.vocabulary for family in FAMILIES if family.name in WAYS]
vocabulary = sorted({word for slots in VOCABULARIES for words in slots.values() for word in words})
words = st.lists(st.sampled_from(vocabulary + KINDS), max_size=6)
numbers = st.lists(st.integers(-5, 1 << 33), min_size=32, max_size=32)


@given(
    addresses=junk | numbers | st.lists(junk, min_size=32, max_size=32),
    access=junk | words.map(".".join) | st.sampled_from(KINDS),
)
def test_only_errors_of_tcemu_come_out(addresses, access):
    try:
        result = wavefronts(addresses, access)
    except TcemuError:
        return
    assert str(result)
