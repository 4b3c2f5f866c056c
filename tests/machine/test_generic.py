"""Generic addresses: the memory of each lane's address, and addresses in none (PTX ISA 9.1, 5.1.4, 9.7.9.20)."""

import re

import numpy as np
import pytest

from tcemu.errors import MemoryFault
from tcemu.machine import events
from tcemu.machine.addresses import LOCAL, PARAM, SHARED, all_global, generic, parts, window_of
from tcemu.machine.launch import launch
from tcemu.machine.registers import POISON

LANES = np.arange(32, dtype=np.int64)


def one(body, *args, **options):
    answers = []
    launch(lambda warp, *given: answers.append(body(warp, *given)), 1, 32, args, shared=4096, **options)
    return answers[0]


def test_windows():
    cases = [(0, "global"), (-8, "global"), (SHARED - 1, "global"), (SHARED, "shared"), (LOCAL - 1, "shared"),
             (LOCAL, "local"), (PARAM - 1, "local"), (PARAM, "param"), (1 << 43, "param")]  # fmt: skip
    assert [window_of(at) for at, _ in cases] == [window for _, window in cases]
    assert generic(16) == SHARED + 16
    found = parts(np.array([at for at, _ in cases]))
    for part in found:
        assert [cases[lane][1] for lane in np.flatnonzero(part.lanes)] == [part.window] * int(part.lanes.sum())
    assert next(part for part in found if part.window == "shared").addresses[3] == 0


@pytest.mark.parametrize("lane", range(32))
def test_one_address_elsewhere_is_noticed(lane):
    addresses = np.full(32, SHARED - 1)
    assert all_global(addresses)
    assert all_global(0 * addresses)
    for other in (-1, -(1 << 63), SHARED, LOCAL, PARAM, 1 << 62, (1 << 63) - 1):
        addresses[lane] = other
        assert not all_global(addresses)


@pytest.mark.parametrize("access", ["b32", "v2.b32", "b64", "u8"])
def test_lanes_load_and_store_in_two_memories_at_once(access):
    """Even lanes in shared memory, odd ones in global memory, as one instruction of ld and one of st."""
    size, count = {"b32": (4, 1), "v2.b32": (8, 2), "b64": (8, 1), "u8": (1, 1)}[access]
    wide = np.uint64 if access == "b64" else np.uint32
    out, heard = np.zeros(32 * size, np.uint8), []

    def body(warp, p):
        where = np.where(LANES % 2 == 0, warp.generic(size * LANES), p + size * LANES)
        values = (100 + np.arange(32 * count)).reshape(32, count)
        heard.clear()
        warp.run(f"st.{access}", where, values)
        back = warp.run(f"ld.{access}", where)
        return values, back.bits.copy(), warp.core.block.shared.bytes[: 32 * size].copy()

    values, back, shared = one(body, out, observers=(heard.append,))
    assert np.array_equal(back, values.astype(wide))
    for lane in LANES:
        place = slice(size * lane, size * lane + size)
        here, there = (shared, out) if lane % 2 == 0 else (out, shared)
        expected = values[lane].astype(f"<u{size // count}").view(np.uint8)
        assert np.array_equal(here[place], expected)
        assert not there[place].any()
    accesses = [each for each in heard if isinstance(each, events.Accessed)]
    told = {(each.space, each.writes): each.lanes.tolist() for each in accesses}
    odd, even = list(range(1, 32, 2)), list(range(0, 32, 2))
    assert told == {("shared", True): even, ("global", True): odd, ("shared", False): even, ("global", False): odd}
    assert all(each.addresses.max() < 2048 for each in accesses if each.space == "shared")


def test_atomics_in_two_memories_at_once():
    """Sums of subnormals: shared memory keeps them, global memory takes them for zeros."""
    tiny = np.float32(2.0**-149)
    out = np.zeros(1, np.float32)

    def body(warp, p):
        where = np.where(LANES < 16, np.int64(warp.generic(64)), int(p))
        old = warp.run("atom.add.u32", np.where(LANES < 16, np.int64(warp.generic(128)), warp.generic(132)), LANES)
        warp.run("red.add.f32", where, np.full(32, tiny))
        return old.bits[:, 0].tolist(), warp.ld_shared(64)[0, 0], warp.ld_shared(128, "v2.b32")[0].tolist()

    old, near, sums = one(body, out)
    assert old == [sum(range(lane)) for lane in range(16)] + [sum(range(16, lane)) for lane in range(16, 32)]
    assert (near, sums) == (16, [sum(range(16)), sum(range(16, 32))])
    assert out[0] == 0


def test_inactive_lanes_may_have_any_address():
    def body(warp):
        with warp.only(LANES < 4):
            found = warp.run("ld.b32", np.where(LANES < 4, warp.generic(4 * LANES), LOCAL))
        return found.bits[:, 0].tolist()

    assert one(body) == [0] * 4 + [POISON] * 28


@pytest.mark.parametrize(("start", "window"), [(LOCAL, "local"), (PARAM, "param"), (1 << 43, "param")])
@pytest.mark.parametrize("form", ["ld.b32", "st.b32", "atom.add.u32", "red.add.u32"])
def test_windows_without_memory_are_faults(form, start, window):
    heard = []

    def body(warp, p):
        where = np.where(LANES == 5, np.int64(start + 16), int(p))
        warp.run(form, where, *([] if form.startswith("ld") else [1]))

    says = rf"{re.escape(form)}: lane 5: address {start + 16:#x} lies in the window of {window} memory.*PTX ISA 9\.1, 9"
    with pytest.raises(MemoryFault, match=says):
        one(body, np.zeros(4, np.int32), observers=(heard.append,))
    (fault,) = (each for each in heard if isinstance(each, events.Faulted))
    assert (fault.kind, fault.instruction.opcode) == ("bounds", form)


def test_an_address_beyond_a_window_s_memory_is_a_fault():
    with pytest.raises(MemoryFault, match="address 4096, 4 bytes, lies outside shared memory, which has 4096 bytes"):
        one(lambda warp: warp.run("ld.b32", warp.generic(4096)))
    with pytest.raises(MemoryFault, match="lies outside global memory"):
        one(lambda warp: warp.run("ld.b32", 64))


LDMATRIX = "ldmatrix.sync.aligned.m8n8.x1.b16"
STMATRIX = "stmatrix.sync.aligned.m8n8.x1.b16"
LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.f16"
STORE = "wmma.store.d.sync.aligned.row.m16n16k16.f32"


def test_matrix_instructions_take_addresses_of_one_memory(row):
    """ldmatrix and stmatrix need shared memory, wmma one of the two; a shared offset without .shared is a fault."""
    eight = np.zeros((32, 8), np.uint32)
    cases = [
        ("an offset for ldmatrix", lambda w, _: w.run(LDMATRIX, 16 * LANES), "it must lie in shared memory"),
        ("a pointer for ldmatrix", lambda _, p: _.run(LDMATRIX, p + 16 * LANES), "a generic address in global memory"),
        ("both", lambda w, p: w.run(LDMATRIX, np.where(LANES < 9, w.generic(16 * LANES), int(p))), "in global memory"),
        ("an offset for stmatrix", lambda w, _: w.run(STMATRIX, 16 * LANES, eight[:, :1]), "must lie in shared memory"),
        ("local", lambda w, _: w.run(LDMATRIX, LOCAL + 16 * LANES), "a generic address in local memory"),
        ("local for wmma", lambda w, _: w.run(LOAD, LOCAL, 16), "it must lie in global or shared memory"),
        ("param for wmma", lambda w, _: w.run(STORE, PARAM, eight, 16), "a generic address in param memory"),
        ("an offset for wmma", lambda w, _: w.run(LOAD, 64, 16), "lies outside global memory"),
    ]
    for name, body, says in cases:
        heard = []
        with row(name):
            with pytest.raises(MemoryFault, match=says) as caught:
                one(body, np.zeros(1024, np.float32), observers=(heard.append,))
            assert "PTX ISA 9.1, 9.7." in str(caught.value)
            assert [each.kind for each in heard if isinstance(each, events.Faulted)] == ["bounds"]


def test_matrix_instructions_find_their_memory(row):
    data = np.arange(512, dtype=np.uint32)

    def body(warp, p):
        warp.core.block.shared.bytes[:2048] = data.view(np.uint8) ^ 1
        near = 16 * LANES
        with row("ldmatrix"):
            assert np.array_equal(warp.run(LDMATRIX, warp.generic(near)), warp.run(
                LDMATRIX.replace(".b16", ".shared.b16"), near))  # fmt: skip
        with row("stmatrix"):
            warp.run(STMATRIX, warp.generic(2048 + near), np.full((32, 1), 7, np.uint32))
            assert warp.core.block.shared.bytes[2048:2176].view(np.uint32).tolist() == [7] * 32
        with row("wmma"):
            far = warp.run(LOAD, p, 16)
            assert np.array_equal(far, warp.run(LOAD.replace(".f16", ".global.f16"), int(p), 16))
            assert np.array_equal(far.bits ^ 0x01010101, warp.run(LOAD, warp.generic(0), 16))

    one(body, data)


# ------------------------------------------------------------------------------------------------ mbarriers


def test_mbarriers_at_generic_addresses(row):
    """Without .shared the address is generic; an offset is then in global memory, where no mbarrier is."""

    def body(warp, deed):
        with warp.only(warp.elect_sync()):
            warp.run("mbarrier.init.b64", warp.generic(64), 2)
            first = warp.run("mbarrier.arrive.b64", warp.generic(64))
            warp.mbarrier_arrive(64)
            assert warp.run("mbarrier.test_wait.b64", warp.generic(64), first)[0]
            assert warp.run("mbarrier.try_wait.parity.b64", warp.generic(64), 0)[0]
            deed(warp)

    cases = [
        lambda w: w.run("mbarrier.init.b64", 64, 1), lambda w: w.run("mbarrier.arrive.b64", 64),
        lambda w: w.run("mbarrier.test_wait.parity.b64", 64, 0), lambda w: w.run("mbarrier.inval.b64", LOCAL),
        lambda w: w.run("cp.async.mbarrier.arrive.b64", 64), lambda w: w.run("mbarrier.expect_tx.b64", 64, 0),
    ]  # fmt: skip
    for number, deed in enumerate(cases):
        says = r"the generic address 0x\w+ of an mbarrier lies in (global|local) memory.*warp\.generic.*PTX ISA 9\.1, 9"
        with row(str(number)), pytest.raises(MemoryFault, match=says):
            one(lambda warp, deed=deed: body(warp, deed))
    one(lambda warp: body(warp, lambda _: None))
