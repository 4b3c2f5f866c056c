"""Whatever is passed in, only a TcemuError comes out, and its message stays readable."""

import random
import string
from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from quick import examples

import tcemu
from tcemu import TcemuError, formats
from tcemu.instructions import FAMILIES, TARGETS
from tcemu.layouts import Layout

OPCODES = [instruction.opcode for family in FAMILIES for _, instruction in family.variants]
MMA = [opcode for opcode in OPCODES if opcode.startswith("mma.sync")]
WORDS = sorted({word for opcode in OPCODES for word in opcode.split(".")})
FRAGMENTS = [f for family in FAMILIES for _, i in family.variants[::9] for f in i.fragments.values()]
HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


class Failing:
    """An object whose conversion to an array raises an error that no array raises."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error("on purpose")


def only_tcemu_errors(call, *arguments, **named):
    """The answer, or None where it was refused in the right way."""
    try:
        return call(*arguments, **named)
    except TcemuError as error:
        message = str(error)
    assert message
    assert len(message) < 3000
    return None


# Text -----------------------------------------------------------------------------------------------------------------


@st.composite
def mutated(draw):
    """A legal opcode with words dropped, doubled, exchanged or replaced, or with single characters changed."""
    words = draw(st.sampled_from(OPCODES)).split(".")
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(words) - 1))
        change = draw(st.sampled_from(["drop", "double", "replace", "exchange", "character", "insert"]))
        if change == "drop" and len(words) > 1:
            del words[at]
        elif change == "double":
            words.insert(at, words[at])
        elif change == "replace":
            words[at] = draw(st.sampled_from(WORDS))
        elif change == "insert":
            words.insert(at, draw(st.sampled_from(WORDS)))
        elif change == "exchange":
            other = draw(st.integers(0, len(words) - 1))
            words[at], words[other] = words[other], words[at]
        elif words[at]:
            place = draw(st.integers(0, len(words[at]) - 1))
            words[at] = words[at][:place] + draw(st.sampled_from(string.printable + "é٣")) + words[at][place + 1 :]
    return ".".join(words)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.lists(st.integers()),
    st.tuples(st.text()),
    st.dictionaries(st.text(), st.integers()),
    st.sets(st.integers()),
    st.just(object()),
    st.just(int),
    st.just(len),
    st.just(np.float32),
    st.just(np.float32(1)),
    st.just(np.zeros(3)),
    st.just(np.str_("mma")),
    st.just(slice(3)),
    st.just(Ellipsis),
    st.just(np.dtype("f4")),
    st.just(range(3)),
    st.just(np.datetime64("NaT", "s")),
    st.sampled_from([Failing(error) for error in (KeyError, ZeroDivisionError, RuntimeError, AttributeError, OSError)]),
)
TEXTS = st.one_of(mutated(), st.text(), st.text("mas.ync_k8 16frow", max_size=60), st.sampled_from(OPCODES))


@given(
    TEXTS,
    st.one_of(st.none(), st.sampled_from(sorted(TARGETS)), st.text("sm_0189af")),
    st.one_of(st.none(), st.text("0123456789.")),
)
@example("mma", None, None)
@example(HMMA + "\x00", "sm_90a", "8.7")
@example("." * 50, "", "")
@example("wmma.load.a.sync.aligned.row.m16n16k16.f16", "sm_70", None)  # other fragments there: another object
def test_text_parses_or_is_explained(text, target, ptx):
    found = only_tcemu_errors(tcemu.parse, text, target, ptx)
    if found is not None:
        assert tcemu.parse(found.opcode, target, ptx) == found
        assert sorted(found.opcode.split(".")) == sorted(text.strip().removesuffix(";").strip().split("."))


@given(ANYTHING, ANYTHING, ANYTHING)
@example("mma", None, False)
def test_anything_parses_or_is_explained(instruction, target, ptx):
    only_tcemu_errors(tcemu.parse, instruction, target, ptx)
    only_tcemu_errors(tcemu.parse, HMMA, target, ptx)
    only_tcemu_errors(tcemu.run, instruction, target=target)


@given(TEXTS, st.lists(ANYTHING, max_size=5), st.sampled_from(sorted(TARGETS)), ANYTHING)
@pytest.mark.slow
def test_anything_runs_or_is_explained(text, operands, target, memory):
    only_tcemu_errors(tcemu.run, text, *operands, target=target)
    only_tcemu_errors(tcemu.run, text, *operands, target=target, shared=memory)
    only_tcemu_errors(tcemu.run, text, *operands, target=target, memory=memory)


# Arrays ---------------------------------------------------------------------------------------------------------------

DTYPES = st.one_of(
    arrays.scalar_dtypes(),
    st.sampled_from(
        [np.dtype(x) for x in ("u4", "u4", ">u4", "u8", "O", "f4", "f2", "?", "S3", "U2", "V4", "M8[s]", "f4,u4", "g")]
    ),
)
SIDES = st.sampled_from([0, 1, 2, 3, 4, 8, 16, 31, 32, 33])
SHAPES = st.one_of(
    st.lists(SIDES, max_size=4).map(tuple),
    st.lists(st.sampled_from([0, 1, 2, 3]), max_size=2).map(lambda lead: (*lead, 32, 4)),
    st.lists(st.sampled_from([0, 1, 2, 3]), max_size=2).map(lambda lead: (*lead, 32, 2)),
)


@st.composite
def any_array(draw):
    """Arrays of any dtype and shape, turned and strided, nested lists, and huge shapes that take no memory."""
    shape, dtype, seed = draw(SHAPES), draw(DTYPES), draw(st.integers(0, 99))
    raw = random.Random(seed).randbytes(int(np.prod(shape)) * dtype.itemsize)
    array = (
        np.empty(shape, object)
        if dtype.hasobject
        else np.frombuffer(raw, dtype).reshape(shape)
        if raw
        else np.zeros(shape, dtype)
    )
    how = draw(
        st.sampled_from(
            ["as it is", "as it is", "turned", "backwards", "strided", "list", "huge", "masked", "tuple of rows"]
        )
    )
    if how == "turned":
        return array.T
    if how == "backwards" and array.ndim:
        return array[::-1]
    if how == "strided" and array.ndim:
        return array[..., ::2]
    if how == "list":
        return array.tolist()
    # beyond any address space, so that no machine tries; numpy multiplies the axes that are not empty
    if how == "huge" and prod(max(size, 1) for size in array.shape) * dtype.itemsize < 4096:
        return np.broadcast_to(array, (10 ** draw(st.integers(12, 14)), *array.shape))
    if how == "masked":
        return np.ma.masked_array(array)
    return tuple(array) if how == "tuple of rows" and array.ndim else array


@examples(300)
@given(
    st.sampled_from(MMA), st.lists(any_array(), min_size=3, max_size=3), st.sampled_from(["sm_90a", "sm_120a", "sm_75"])
)
def test_arrays_run_or_are_explained(opcode, operands, target):
    got = only_tcemu_errors(tcemu.run, opcode, *operands, target=target)
    if got is not None:
        assert got.dtype in (np.uint32, np.uint64)


@given(st.sampled_from(MMA), st.lists(SHAPES, min_size=3, max_size=3))
def test_shapes_run_or_are_explained(opcode, shapes):
    instruction = tcemu.parse(opcode)
    dtype = instruction.fragments["a"].container.register_dtype
    operands = [np.zeros(shape, dtype) for shape in shapes]
    got = only_tcemu_errors(tcemu.run, opcode, *operands, target="sm_120a")
    if got is not None:
        assert got.shape == (
            *np.broadcast_shapes(*(shape[:-2] for shape in shapes)),
            32,
            instruction.fragments["d"].registers,
        )


@examples(300)
@given(st.sampled_from(FRAGMENTS), any_array())
def test_arrays_are_packed_and_unpacked_or_explained(fragment, array):
    if np.size(array) < 10**6:  # packing makes what it is asked to make
        only_tcemu_errors(fragment.pack, array)
        only_tcemu_errors(fragment.unpack, array)
    only_tcemu_errors(fragment.check, array)


@given(st.sampled_from(FRAGMENTS), ANYTHING, ANYTHING, ANYTHING)
def test_anything_is_packed_and_found_or_explained(fragment, one, two, three):
    only_tcemu_errors(fragment.pack, one)
    only_tcemu_errors(fragment.unpack, one)
    only_tcemu_errors(fragment.position, one, two, three)
    only_tcemu_errors(fragment.holders, one, two)
    only_tcemu_errors(fragment.layout.position, one, two)
    only_tcemu_errors(fragment.layout.holders, one, two, three)


# Formats and layouts --------------------------------------------------------------------------------------------------

FORMATS = st.sampled_from(list(formats.FORMATS.values()))


@given(st.one_of(ANYTHING, st.text("ue8m0f63bt ."), st.just("x" * 9999)))
def test_any_name_is_looked_up_or_explained(name):
    only_tcemu_errors(formats.lookup, name)


@examples(300)
@given(
    FORMATS,
    st.one_of(any_array().filter(lambda array: np.size(array) < 10**6), ANYTHING),
    st.one_of(st.sampled_from(["rn", "rz", "rm", "rp", "rna"]), ANYTHING),
    st.booleans(),
)
@example(formats.lookup("s32"), np.array([0x7FF0000000000001], np.uint64).view(np.float64), "rn", False)
@example(formats.lookup("s32"), np.array([0x7FF0000000000001], np.uint64).view(np.float64), "rn", True)
def test_anything_is_encoded_and_decoded_or_explained(form, values, rounding, satfinite):
    encoded = only_tcemu_errors(form.encode, values, rounding, satfinite)
    if encoded is not None:
        assert encoded.dtype == form.storage
        assert encoded.shape == np.shape(values)
    decoded = only_tcemu_errors(form.decode, values)
    if decoded is not None:
        assert decoded.shape == np.shape(values)
    only_tcemu_errors(form.patterns, values)


@given(FORMATS, st.one_of(ANYTHING, st.integers(-(2**70), 2**70)))
def test_any_pattern_has_fields_or_is_explained(form, pattern):
    only_tcemu_errors(form.fields, pattern)
    only_tcemu_errors(form.classify, pattern)
    if isinstance(pattern, int) and 0 <= pattern < 2**form.container:
        assert form.classify(pattern) in ("zero", "subnormal", "normal", "infinity", "nan")


PATTERNS = st.one_of(ANYTHING, st.text("hgtp ()->1"), st.just("(h g) (t p) -> (g t) (h p)"), st.just("h g -> g h"))
SIZES = st.dictionaries(
    st.sampled_from("hgtp"), st.one_of(st.integers(-1, 9), st.sampled_from([10**30, 2**40, 1.5, "8", None]))
)


@given(PATTERNS, SIZES)
@example("h g -> g h", {"h": 2**20, "g": 2**20})
def test_any_pattern_is_a_layout_or_explained(pattern, sizes):
    layout = only_tcemu_errors(Layout, pattern, **sizes)
    if layout is not None:
        assert layout.gather.shape == (layout.lanes, layout.slots)
        assert layout.gather.size <= 2**20


@pytest.mark.slow
@examples(1500, one_in=5)
@given(TEXTS)
def test_much_text_parses_or_is_explained(text):
    only_tcemu_errors(tcemu.parse, text, "sm_90a", "8.7")


@pytest.mark.slow
@examples(1500, one_in=5)
@given(st.sampled_from(OPCODES), st.lists(st.one_of(any_array(), ANYTHING), max_size=6), any_array())
def test_much_runs_or_is_explained(opcode, operands, memory):
    only_tcemu_errors(tcemu.run, opcode, *operands)
    only_tcemu_errors(tcemu.run, opcode, *operands, shared=memory)
