"""ld and st in kernels, pointers, and the arrays of a launch: against Python's own view of the same bytes."""

import re
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from tcemu.errors import LaunchError, MemoryFault, OperandError
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.memory import ALIGN, GlobalMemory, Pointer
from tcemu.machine.registers import POISON

#: PTX ISA 9.1, 9.7.9.8: .b8 to .b64, .u and .s alike, .f32, .f64, alone or in vectors of up to 16 bytes.
TYPES = [f"{kind}{bits}" for kind, bits in product("bus", (8, 16, 32, 64))] + ["f32", "f64"]
ACCESSES = [
    (f"{prefix}{kind}", count, int(kind[1:]))
    for prefix, count in (("", 1), ("v2.", 2), ("v4.", 4))
    for kind in TYPES
    if count * int(kind[1:]) <= 128
]
SPACES = ("shared", "global")
LANES = np.arange(32)


def noise(size, seed=3):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def run(body, *args, shared=4096, **options):
    """Launch one warp; the launch, and what `body` answered."""
    answers = []
    result = launch(lambda warp, *given: answers.append(body(warp, *given)), 1, 32, args, shared=shared, **options)
    return result, answers[0]


def fill(warp, data):
    """Put bytes into shared memory, by Python alone."""
    warp._block.shared.bytes[: data.size] = data


def loaded(data, at, kind, count, bits):
    """What one lane's registers hold, by int.from_bytes: 32 bits at least, s8 and s16 extended with their sign."""
    width = max(bits, 32)
    found = []
    for number in range(count):
        part = bytes(data[at + number * bits // 8 : at + (number + 1) * bits // 8])
        value = int.from_bytes(part, "little", signed=kind.rpartition(".")[2].startswith("s"))
        found.append(value % (1 << width))
    return found


def test_there_are_as_many_accesses_as_the_manual_has():
    assert len(ACCESSES) == 14 + 14 + 10


@pytest.mark.parametrize("space", SPACES)
def test_every_load(row, space):
    data = noise(1024)
    for spelling, count, bits in ACCESSES:
        size = count * bits // 8
        for name, mask in (("all", LANES >= 0), ("some", LANES % 3 == 1), ("one", LANES == 17)):
            addresses = np.random.default_rng(7).integers(0, len(data) // size, 32) * size

            def body(warp, given, addresses=addresses, spelling=spelling, mask=mask):
                fill(warp, data)
                base = int(given) if space == "global" else 0
                with warp.only(mask):
                    return getattr(warp, f"ld_{space}")(base + addresses, spelling)

            with row(f"{spelling} {name}"):
                _, found = run(body, data)
                assert found.shape == (32, count)
                assert found.dtype == (np.uint64 if bits == 64 else np.uint32)
                for lane in LANES:
                    expected = loaded(data, addresses[lane], spelling, count, bits)
                    assert found.bits[lane].tolist() == (expected if mask[lane] else [POISON] * count)


@pytest.mark.parametrize("space", SPACES)
def test_every_store(row, space):
    numbers = np.random.default_rng(11)
    for spelling, count, bits in ACCESSES:
        size = count * bits // 8
        places = numbers.permutation(2048 // size)[:32] * size
        values = numbers.integers(0, 1 << 64, (32, count), np.uint64)
        expected = noise(2048)
        out = expected.copy()
        for lane in range(1, 32, 2):
            for number in range(count):
                at = places[lane] + number * bits // 8
                part = int(values[lane, number]) % (1 << bits)
                expected[at : at + bits // 8] = list(part.to_bytes(bits // 8, "little"))

        def body(warp, given, places=places, values=values, spelling=spelling):
            fill(warp, noise(2048))
            base = int(given) if space == "global" else 0
            with warp.only(LANES % 2 == 1):
                getattr(warp, f"st_{space}")(base + places, values, spelling)
            return warp._block.shared.bytes[:2048].copy()

        with row(spelling):
            _, shared = run(body, out)
            assert np.array_equal(shared if space == "shared" else out, expected)
            assert np.array_equal(noise(2048), out if space == "shared" else shared)


def test_what_may_be_stored(row):
    f16, f32, f64 = (np.arange(-16, 16, dtype=kind) / 8 for kind in (np.float16, np.float32, np.float64))
    bf16 = f32.astype(ml_dtypes.bfloat16)
    cases = [
        ("f32 as bits", "b32", f32, f32.view(np.uint32)),
        ("f32 in f32", "f32", f32[:, None], f32.view(np.uint32)),
        ("f16", "b16", f16, f16.view(np.uint16)),
        ("f64", "f64", f64, f64.view(np.uint64)),
        ("big-endian f32", "f32", f32.astype(">f4"), f32.view(np.uint32)),
        ("every second f32", "f32", np.repeat(f32, 2)[::2], f32.view(np.uint32)),
        ("negative", "u32", np.full(32, -1), np.full(32, 0xFFFFFFFF)),
        ("one for all", "b16", 0x12345, np.full(32, 0x2345)),
        ("one negative", "b8", -2, np.full(32, 254)),
        ("bf16 as bits", "b16", bf16.view(np.uint16), (f32.view(np.uint32) >> 16)),
        ("int8", "s8", np.arange(-16, 16, dtype=np.int8), np.arange(-16, 16) % 256),
    ]
    for name, access, values, expected in cases:
        size = int(access[1:]) // 8

        def body(warp, values=values, access=access, size=size):
            warp.st_shared(size * warp.lanes, values, access)
            return warp._block.shared.bytes[: 32 * size].view(f"u{size}").copy()

        with row(name):
            assert run(body)[1].tolist() == expected.tolist()


def test_of_lanes_that_store_to_one_place_one_wins():
    _, left = run(lambda warp: (warp.st_shared(8, 100 + warp.lanes), warp.ld_shared(8))[1])
    assert len(set(left.bits[:, 0].tolist())) == 1
    assert 100 <= int(left.bits[0, 0]) < 132


def test_wrong_values_and_accesses(row):
    cases = [
        ("f64 as b32", lambda w: w.st_shared(4 * w.lanes, np.zeros(32)), "floats of 32 bits; got dtype float64"),
        ("f16 as b32", lambda w: w.st_shared(4 * w.lanes, np.zeros(32, np.float16)), r"\.view\(np\.uint32\)"),
        ("a python float", lambda w: w.st_shared(4 * w.lanes, 1.5), "got dtype float64"),
        ("bool", lambda w: w.st_shared(4 * w.lanes, w.lanes > 3), "got dtype bool"),
        ("a list of None", lambda w: w.st_shared(4 * w.lanes, [None] * 32), "got dtype object"),
        ("ragged", lambda w: w.st_shared(4 * w.lanes, [[1], [2, 3]]), "not an array"),
        ("too wide", lambda w: w.st_shared(4 * w.lanes, np.zeros((32, 2), int)), r"\(32, 1\) or \(32,\)"),
        ("flat vector", lambda w: w.st_shared(8 * w.lanes, w.lanes, "v2.b32"), r"\(32, 2\), or one for all"),
        ("sixteen lanes", lambda w: w.st_shared(4 * w.lanes, w.lanes[:16]), "got shape (16,)"),
        ("v3", lambda w: w.ld_shared(0, "v3.b32"), "got 'v3.b32' (PTX ISA 9.7.9.8)"),
        ("v4.b64", lambda w: w.ld_shared(0, "v4.b64"), "up to 16 bytes"),
        ("no text", lambda w: w.ld_shared(0, 32), "an object of type int"),
        ("a float address", lambda w: w.ld_shared(0.0), "addresses: one integer for all lanes"),
        ("a bool address", lambda w: w.ld_shared(True), "addresses: one integer for all lanes"),
        ("31 addresses", lambda w: w.ld_global(w.lanes[:31]), r"got int64 (31,)"),
        ("no address", lambda w: w.st_global(None, 1), "got object ()"),
        ("beyond 64 bits", lambda w: w.ld_shared(1 << 70), "got object ()"),
    ]
    for name, body, says in cases:
        with row(name), pytest.raises(OperandError, match=says if "\\" in says else re.escape(says)):
            run(body)


# ------------------------------------------------------------------------------------------------ wrong addresses


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("store", [False, True], ids=["ld", "st"])
def test_a_misaligned_access_names_lane_address_and_rule(row, space, store):
    for spelling, count, bits in ACCESSES:
        size = count * bits // 8
        if size == 1:
            continue
        addresses = ALIGN + size * LANES
        addresses[9] += size // 2
        addresses[20] += 1

        def body(warp, _, addresses=addresses, spelling=spelling, count=count):
            if store:
                getattr(warp, f"st_{space}")(addresses, np.zeros((32, count), int), spelling)
            else:
                getattr(warp, f"ld_{space}")(addresses, spelling)

        with row(spelling):
            heard = []
            with pytest.raises(MemoryFault) as caught:
                run(body, np.zeros(4096, np.uint8), observers=(heard.append,))
            opcode, section = ("st", "9.7.9.11") if store else ("ld", "9.7.9.8")
            told = (
                f"{opcode}.{space}.{spelling}: lane 9: address {addresses[9]} in {space} memory is no multiple of "
                f"{size}, as an access of {size} bytes needs (PTX ISA {section}) (warp 0 of block 0 at {__file__}:"
            )
            assert str(caught.value).startswith(told)
            (fault,) = (event for event in heard if isinstance(event, events.Faulted))
            assert (fault.kind, fault.space, fault.opcode) == ("alignment", space, f"{opcode}.{space}.{spelling}")
            assert not any(isinstance(event, events.Accessed) for event in heard)


def test_where_memory_ends(row):
    """Shared memory has 100 bytes; global memory two arrays of 40 and 8 bytes, with a gap between them."""
    a, b = np.zeros(10, np.float32), np.zeros(1)
    first, second = ALIGN, 3 * ALIGN
    cases = [
        ("shared", 96, "b32", ""),
        ("shared", 92, "b64", "multiple of 8"),
        ("shared", 96, "b64", "address 96, 8 bytes, lies outside shared memory, which has 100 bytes in this launch"),
        ("shared", 100, "b8", "address 100, 1 bytes, lies outside shared memory, which has 100 bytes"),
        ("shared", -4, "b32", "address -4, 4 bytes, lies outside shared memory"),
        ("shared", (1 << 63) - 8, "b64", "lies outside shared memory"),
        ("global", first + 36, "b32", ""),
        ("global", second, "b64", ""),
        (
            "global",
            0,
            "b32",
            "address 0, 4 bytes, lies outside global memory: 256 bytes before argument 0 (256 to 296)",
        ),
        ("global", first + 40, "b32", "0 bytes after the end of argument 0 (256 to 296)"),
        ("global", first + 44, "b32", "4 bytes after the end of argument 0 (256 to 296)"),
        ("global", first + 32, "v4.b32", "across the end of argument 0 (256 to 296)"),
        ("global", second - 4, "b32", "468 bytes after the end of argument 0"),
        ("global", second + 8, "b8", "0 bytes after the end of argument 1 (768 to 776)"),
        ("global", second - ALIGN, "b8", "216 bytes after the end of argument 0"),
        ("global", 1 << 40, "b8", "after the end of argument 1"),
        ("global", -1, "b8", "257 bytes before argument 0"),
    ]
    for space, at, access, says in cases:
        addresses = np.where(LANES == 5, at, first if space == "global" else 0)

        def body(warp, *_, space=space, addresses=addresses, access=access):
            getattr(warp, f"ld_{space}")(addresses, access)

        with row(f"{space} {at} {access}"):
            if not says:
                run(body, a, b, shared=100)
                continue
            with pytest.raises(MemoryFault, match=re.escape(says)) as caught:
                run(body, a, b, shared=100)
            assert ": lane 5: " in str(caught.value)


def test_lanes_that_take_no_part_may_have_any_address():
    def body(warp):
        with warp.only(warp.lanes == 3):
            warp.st_shared(np.where(warp.lanes == 3, 40, -1), warp.lanes)
            return warp.ld_shared(np.where(warp.lanes == 3, 40, 3))

    assert run(body)[1].bits[3] == 3


def test_memory_that_is_not_there():
    with pytest.raises(MemoryFault, match="no array was given to the kernel"):
        run(lambda warp: warp.ld_global(256))
    with pytest.raises(MemoryFault, match="which has 0 bytes in this launch"):
        run(lambda warp: warp.ld_shared(0), shared=0)


def test_unsigned_addresses_beyond_every_memory():
    with pytest.raises(MemoryFault, match="lies outside shared memory"):
        run(lambda warp: warp.ld_shared(np.full(32, (1 << 64) - 4, np.uint64), "b8"))


def test_a_fault_leaves_the_arrays_as_they_were():
    out = np.zeros(32, np.int32)

    def body(warp, out):
        warp.st_global(out.at(warp.lanes), warp.lanes)
        warp.ld_global(out + 128)

    with pytest.raises(MemoryFault) as caught:
        run(body, out)
    assert not out.any()
    assert caught.value.launch.counts == {"st.global.b32": 1, "ld.global.b32": 1}
    assert caught.value.launch.blocks == 0


# ------------------------------------------------------------------------------------------------ pointers


def test_a_pointer_knows_its_array():
    pointer = Pointer(512, np.dtype(np.float16), (3, 5))
    assert (pointer.dtype, pointer.shape, pointer.nbytes) == (np.float16, (3, 5), 30)
    assert repr(pointer) == "<pointer 512 to float16 (3, 5)>"
    assert pointer + 8 == 520
    assert int(pointer) == 512
    array = np.arange(15, dtype=np.float16).reshape(3, 5)
    for i, j in np.ndindex(3, 5):
        assert pointer.at(i, j) == 512 + array[i, j] * 2
        assert isinstance(pointer.at(i, np.int8(j)), int)
    rows, columns = np.arange(3)[:, None], np.arange(5)
    assert np.array_equal(pointer.at(rows, columns), 512 + 2 * array.astype(int))
    assert np.array_equal(pointer.at(1, columns.astype(np.uint8)), 522 + 2 * np.arange(5))
    assert Pointer(256, np.dtype(np.float64), ()).at() == 256
    assert Pointer(256, np.dtype(np.float64), ()).nbytes == 8


def test_a_pointer_does_not_guess(row):
    pointer = Pointer(512, np.dtype(np.float16), (3, 5))
    cases = [
        ("one index", (1,), "the array has 2 axes; got 1 indices"),
        ("three", (1, 2, 3), "got 3 indices"),
        ("a float", (1, 2.0), "an index is an integer or an array of them; got 2.0"),
        ("a bool", (True, 0), "got True"),
        ("floats", (0, np.zeros(3)), "an index is an integer"),
        ("text", ("0", 1), "got '0'"),
        ("nothing", (None, 1), "got None"),
        ("a slice", (slice(None), 1), "got slice"),
        ("no broadcast", (np.arange(3), np.arange(5)), r"arrays that broadcast; got shapes (3,) and (5,)"),
        ("huge", (1 << 62, np.arange(5)), "got shapes () and (5,)"),
        ("beyond 64 bits", (1 << 80, 0), "an index is an integer"),
    ]
    for name, index, says in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(says)):
            pointer.at(*index)


def test_arrays_lie_apart():
    """At multiples of 256, as cudaMalloc places them, and never so near that an access could reach the next."""
    arrays = [np.zeros(size, np.uint8) for size in (1, 255, 256, 257, 4096, 3)]
    pointers = GlobalMemory([(str(n), array) for n, array in enumerate(arrays)]).pointers
    ends = [int(pointer) + pointer.nbytes for pointer in pointers]
    assert all(pointer % 256 == 0 and pointer > 0 for pointer in pointers)
    assert all(pointer - end >= 256 for pointer, end in zip(pointers[1:], ends, strict=False))


# ------------------------------------------------------------------------------------------------ arguments


def increment(warp, pointer):
    """Add 1 to every 32-bit element of a contiguous array."""
    count = pointer.nbytes // 4
    for first in range(0, count, 32):
        with warp.only(first + warp.lanes < count):
            at = pointer + 4 * (first + warp.lanes)
            warp.st_global(at, warp.ld_global(at)[:, 0] + 1)


def test_what_kernels_write_comes_back_into_arrays_of_any_shape(row):
    numbers = np.arange(120, dtype=np.int32)
    cases = [
        ("flat", numbers.copy()),
        ("3-d", numbers.reshape(4, 5, 6).copy()),
        ("0-d", np.array(7, np.int32)),
        ("Fortran's order", np.asfortranarray(numbers.reshape(10, 12))),
        ("every second", np.repeat(numbers, 2)[::2]),
        ("backwards", numbers.copy()[::-1]),
        ("transposed", numbers.reshape(10, 12).copy().T),
        ("float32 bits", numbers.view(np.float32).copy()),
    ]
    for name, array in cases:
        with row(name):
            before = array.copy()
            run(increment, array)
            assert np.array_equal(array.view(np.int32) if array.dtype != np.int32 else array, before.view(np.int32) + 1)


def test_the_kernel_sees_an_array_in_rows_whatever_its_strides():
    array = np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4))
    _, found = run(lambda warp, p: warp.ld_global(p.at(1, warp.lanes % 4)), array)
    assert found.bits[:4, 0].tolist() == [4, 5, 6, 7]


def test_only_what_lies_between_strides_stays():
    whole = np.arange(64, dtype=np.int32)
    run(increment, whole[::2])
    assert np.array_equal(whole, np.arange(64) + (np.arange(64) % 2 == 0))


def test_nans_keep_their_bits():
    array = np.full(32, 0x7F812345, np.uint32).view(np.float32)
    run(lambda warp, p: warp.st_global(p.at(warp.lanes % 2), 0xFFC54321), array)
    assert array.view(np.uint32).tolist() == [0xFFC54321] * 2 + [0x7F812345] * 30


def test_structured_and_small_dtypes_are_bytes():
    pair = np.dtype([("x", "<i2"), ("y", "<f4")])
    array = np.zeros((2, 3), pair)
    run(lambda warp, p: (warp.st_global(p.at(1, 2) + 0, 0x1234, "b16"), warp.st_global(p.at(1, 1) - 4, 1, "b8")), array)
    assert array["x"].tolist() == [[0, 0, 0], [0, 0, 0x1234]]
    assert array["y"].view(np.uint32)[1, 0] == 1
    bf16 = np.ones(8, ml_dtypes.bfloat16)
    run(lambda warp, p: warp.st_global(p.at(np.minimum(warp.lanes, 3)), 0x4000, "b16"), bf16)
    assert bf16.astype(float).tolist() == [2] * 4 + [1] * 4


def test_arrays_that_cannot_live_in_global_memory(row):
    cases = [
        ("none", np.zeros((3, 0)), "at least one element"),
        ("objects", np.array([1, "x"], object), "'object'"),
        ("objects inside", np.zeros(3, [("a", object)]), "plain dtype"),
        ("nothing each", np.zeros(3, "V0"), "at least one element"),
        ("the high byte first", np.zeros(3, ">f4"), "the low byte first; got '>f4', shape (3,)"),
        ("inside", np.zeros(3, [("a", ">i8")]), "the low byte first"),
    ]
    for name, array, says in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(says)):
            run(lambda *_: None, array)


def test_other_arguments_are_passed_as_they_are():
    given = (3, "x", None, [1, 2], np.float32(2.5), {"a": 1})
    _, found = run(lambda _, *args: args, *given)
    assert all(one is other for one, other in zip(found, given, strict=True))


def test_an_array_that_is_given_twice_is_one():
    array = np.zeros(32, np.int32)

    def body(warp, one, other, third):
        assert one == other
        assert third != one
        warp.st_global(one.at(warp.lanes), warp.lanes)
        return warp.ld_global(other.at(warp.lanes))

    _, found = run(body, array, array, np.ones(32, np.int32))
    assert found.bits[:, 0].tolist() == list(range(32))
    assert array.tolist() == list(range(32))


def test_two_views_of_one_array_may_be_read_and_not_written():
    array = np.arange(32, dtype=np.int32)
    run(
        lambda warp, p, q: warp.st_global(q.at(warp.lanes), warp.ld_global(p.at(warp.lanes))),
        array[::-1],
        out := array * 0,
    )
    assert out.tolist() == array[::-1].tolist()
    before = array.copy()
    with pytest.raises(
        LaunchError, match=r"wrote to argument 0, and argument 1 is another view of the same numbers"
    ) as no:
        run(increment_first, array, array[4:])
    assert np.array_equal(array, before)
    assert no.value.launch.blocks == 1
    run(increment_first, array[:16], array[16:])  # they share a base, and no element
    assert array.tolist() == [i + (i < 16) for i in range(32)]
    run(increment_first, array[::2], array[1::2])
    assert array.tolist() == [i + (i < 16) + (i % 2 == 0) for i in range(32)]


def increment_first(warp, p, _):
    increment(warp, p)


def test_a_read_only_array_is_read_and_not_written():
    array = np.arange(32, dtype=np.int32)
    array.flags.writeable = False
    run(lambda warp, p: warp.ld_global(p.at(warp.lanes)), array)
    with pytest.raises(LaunchError, match="wrote to argument 0, an array that is read-only"):
        run(increment, array)
    assert array.tolist() == list(range(32))
    spread = np.broadcast_to(np.int32(5), (8,))
    _, found = run(lambda warp, p: warp.ld_global(p.at(warp.lanes % 8)), spread)
    assert (found.bits == 5).all()


# ------------------------------------------------------------------------------------------------ generic addresses


def test_generic_addresses_lie_beyond_all_global_ones():
    def body(warp, p):
        one = warp.generic(16)
        many = warp.generic(warp.lanes.astype(np.uint32))
        assert isinstance(one, int)
        assert many.dtype == np.int64
        assert np.array_equal(many - one, warp.lanes - 16)
        assert one > p + p.nbytes
        for junk in (1.5, "x", None, [1, [2]]):
            with pytest.raises(OperandError):
                warp.generic(junk)

    run(body, np.zeros(4))


# ------------------------------------------------------------------------------------------------ what observers hear


def test_the_order_of_events():
    """Issued, then the registers that are read, then the access, then the registers that are written."""
    heard = []

    def body(warp):
        values, addresses = warp.registers(1, fill=7), warp.registers(1, fill=64)
        heard.clear()
        warp.st_shared(addresses, values)
        stored = list(heard)
        heard.clear()
        warp.ld_shared(addresses)
        return stored, list(heard)

    _, (stored, fetched) = run(body, observers=(heard.append,))
    kinds = [(event.name, getattr(event, "writes", None)) for event in stored]
    assert kinds == [("Issued", None), ("Touched", False), ("Touched", False), ("Accessed", True)]
    kinds = [(event.name, getattr(event, "writes", None)) for event in fetched]
    assert kinds == [("Issued", None), ("Touched", False), ("Accessed", False), ("Touched", True)]


def test_an_access_is_told_by_lane():
    heard = []

    def body(warp):
        with warp.only(warp.lanes % 8 == 1):
            warp.st_shared(16 * warp.lanes, np.zeros((32, 4), int), "v4.b32")

    run(body, observers=(heard.append,))
    (access,) = (event for event in heard if isinstance(event, events.Accessed))
    assert (access.space, access.writes, access.size, access.collective) == ("shared", True, 16, False)
    assert access.lanes.tolist() == [1, 9, 17, 25]
    assert access.addresses.tolist() == [16, 144, 272, 400]
    assert access.by.active == 0x02020202
