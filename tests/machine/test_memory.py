"""ld and st in kernels: against Python's own view of the same bytes."""

import re
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu.errors import IllegalInstruction, MemoryFault, OperandError
from tcemu.machine import events, memory
from tcemu.machine.global_memory import ALIGN
from tcemu.machine.launch import launch
from tcemu.machine.registers import POISON
from tcemu.manual import named

#: PTX ISA 9.1, 9.7.9.8: .b8 to .b64, .u and .s alike, .f32, .f64, alone or in vectors of up to 16 bytes.
TYPES = [f"{kind}{bits}" for kind, bits in product("bus", (8, 16, 32, 64))] + ["f32", "f64"]
ACCESSES = [
    (f"{prefix}{kind}", count, int(kind[1:]))
    for prefix, count in (("", 1), ("v2.", 2), ("v4.", 4))
    for kind in TYPES
    if count * int(kind[1:]) <= 128
]
SPACES = ("shared", "global")
LANES = np.arange(32, dtype=np.int64)


def noise(size, seed=3):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def run(body, *args, shared=4096, **options):
    """Launch one warp; the launch, and what `body` answered."""
    answers = []
    result = launch(lambda warp, *given: answers.append(body(warp, *given)), 1, 32, args, shared=shared, **options)
    return result, answers[0]


def fill(warp, data):
    """Put bytes into shared memory, by Python alone."""
    warp.core.block.shared.bytes[: data.size] = data


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
            return warp.core.block.shared.bytes[:2048].copy()

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
            warp.st_shared(size * warp.laneid, values, access)
            return warp.core.block.shared.bytes[: 32 * size].view(f"u{size}").copy()

        with row(name):
            assert run(body)[1].tolist() == expected.tolist()


def test_of_lanes_that_store_to_one_place_one_wins():
    _, left = run(lambda warp: (warp.st_shared(8, 100 + warp.laneid), warp.ld_shared(8))[1])
    assert len(set(left.bits[:, 0].tolist())) == 1
    assert 100 <= int(left.bits[0, 0]) < 132


def test_wrong_values_and_accesses(row):
    cases = [
        ("f64 as b32", lambda w: w.st_shared(4 * w.laneid, np.zeros(32)), "floats of 32 bits; got dtype float64"),
        ("f16 as b32", lambda w: w.st_shared(4 * w.laneid, np.zeros(32, np.float16)), r"\.view\(np\.uint32\)"),
        ("a python float", lambda w: w.st_shared(4 * w.laneid, 1.5), "got dtype float64"),
        ("bool", lambda w: w.st_shared(4 * w.laneid, w.laneid > 3), "got dtype bool"),
        ("a list of None", lambda w: w.st_shared(4 * w.laneid, [None] * 32), "got dtype object"),
        ("ragged", lambda w: w.st_shared(4 * w.laneid, [[1], [2, 3]]), "not an array"),
        ("too wide", lambda w: w.st_shared(4 * w.laneid, np.zeros((32, 2), int)), r"\(32, 1\) or \(32,\)"),
        ("flat vector", lambda w: w.st_shared(8 * w.laneid, w.laneid, "v2.b32"), r"\(32, 2\), or one for all"),
        ("sixteen lanes", lambda w: w.st_shared(4 * w.laneid, w.laneid[:16]), "got shape (16,)"),
        ("no text", lambda w: w.ld_shared(0, 32), "ld: what follows .shared is text, as the opcode spells it; got 32"),
        ("a float address", lambda w: w.ld_shared(0.0), "ld.shared.b32: address must be one integer for all lanes"),
        ("a bool address", lambda w: w.ld_shared(True), "one for each; got bool () (PTX ISA 9.1, 9.7.9.8 "),
        ("31 addresses", lambda w: w.ld_global(w.laneid[:31]), r"got int64 (31,)"),
        ("no address", lambda w: w.st_global(None, 1), "got object ()"),
        ("beyond 64 bits", lambda w: w.ld_shared(1 << 70), "got object ()"),
    ]
    for name, body, says in cases:
        with row(name), pytest.raises(OperandError, match=says if "\\" in says else re.escape(says)) as caught:
            run(body)
        assert re.search(r"(ld|st).*PTX ISA 9\.1, 9\.7\.9\.(8|11)", str(caught.value)), name
    illegal = [
        ("v3.b32", "ld.shared.v3.b32: '.v3' is not a qualifier of ld. Did you mean 'v4'?"),
        ("v4.b64", "ld.shared.v4.b64: .v4 cannot be combined with the other qualifiers"),  # 32 bytes: global only
        ("v2.b128", "ld.shared.v2.b128"),
        ("", "ld.shared"),
    ]
    for access, says in illegal:
        with row(access), pytest.raises(IllegalInstruction, match=re.escape(says)):
            run(lambda warp, access=access: warp.ld_shared(0, access))


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
                f"{opcode}.{space}.{spelling}: lane 9: address {addresses[9]} in {space} memory is not a multiple of "
                f"{size}, as an access of {size} bytes requires ({named(section)}) (warp 0 of block 0 at {__file__}:"
            )
            assert str(caught.value).startswith(told)
            (fault,) = (event for event in heard if isinstance(event, events.Faulted))
            assert (fault.kind, fault.space) == ("alignment", space)
            assert fault.instruction.opcode == f"{opcode}.{space}.{spelling}"
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
            "address 0, 4 bytes, lies outside global memory: it is the null pointer",
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
        addresses = np.where(LANES == 5, np.int64(at), first if space == "global" else 0)

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
        with warp.only(warp.laneid == 3):
            warp.st_shared(np.where(warp.laneid == 3, 40, -1), warp.laneid)
            return warp.ld_shared(np.where(warp.laneid == 3, 40, 3))

    assert run(body)[1].bits[3] == 3


def test_memory_that_is_not_there():
    with pytest.raises(MemoryFault, match="the kernel has no array among its arguments"):
        run(lambda warp: warp.ld_global(256))
    with pytest.raises(MemoryFault, match="which has 0 bytes in this launch"):
        run(lambda warp: warp.ld_shared(0), shared=0)


def test_unsigned_addresses_beyond_every_memory():
    with pytest.raises(MemoryFault, match="lies outside shared memory"):
        run(lambda warp: warp.ld_shared(np.full(32, (1 << 64) - 4, np.uint64), "b8"))


def test_a_fault_leaves_the_arrays_as_they_were():
    out = np.zeros(32, np.int32)

    def body(warp, out):
        warp.st_global(out.at(warp.laneid), warp.laneid)
        warp.ld_global(out + 128)

    with pytest.raises(MemoryFault) as caught:
        run(body, out)
    assert not out.any()
    assert caught.value.launch.counts == {"st.global.b32": 1, "ld.global.b32": 1}
    assert caught.value.launch.blocks == 0


# ------------------------------------------------------------------------------------------------ generic addresses


def test_generic_addresses_lie_beyond_all_global_ones():
    def body(warp, p):
        one = warp.generic(16)
        many = warp.generic(warp.laneid.astype(np.uint32))
        assert isinstance(one, int)
        assert many.dtype == np.int64
        assert np.array_equal(many - one, warp.laneid - 16)
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
        with warp.only(warp.laneid % 8 == 1):
            warp.st_shared(16 * warp.laneid, np.zeros((32, 4), int), "v4.b32")

    run(body, observers=(heard.append,))
    (access,) = (event for event in heard if isinstance(event, events.Accessed))
    assert (access.space, access.writes, access.size, access.collective) == ("shared", True, 16, False)
    assert access.lanes.tolist() == [1, 9, 17, 25]
    assert access.addresses.tolist() == [16, 144, 272, 400]
    assert access.by.active == 0x02020202


@pytest.mark.parametrize("kernel", [False, True])
@examples(60)
@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=40), st.integers(0, 5))
def test_units(kernel, addresses, shift):
    module = pytest.importorskip("tcemu.kernels.host.memory") if kernel else memory
    found = np.empty((len(addresses), 1), np.int64)
    beside, low, high = module.units(np.array(addresses, np.int64), shift, found)
    assert found[:, 0].tolist() == [address // 2**shift for address in addresses]
    assert bool(beside) == any(address % 2**shift for address in addresses)
    assert (low, high) == (min(addresses), max(addresses))
