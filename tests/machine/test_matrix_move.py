"""Moves of matrices in a kernel: the short way answers and reports what the way of all operands does."""

import numpy as np
import pytest
from forms import home

from tcemu.errors import MemoryFault
from tcemu.instructions.table import FAMILIES
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.matrix_move import move_of
from tcemu.machine.registers import Bank

MOVES = {family.name: family for family in FAMILIES
         if family.name in ("ldmatrix", "stmatrix", "movmatrix", "wmma.load", "wmma.store")}  # fmt: skip
SIZE = 1 << 14


def seen(instruction, general, target, space, stride):
    """Registers, memory and accesses after one execution; `general`: with operands that the short way does not take."""
    rng = np.random.default_rng(0)
    content = rng.integers(0, 256, SIZE, np.uint8)
    row = instruction.facts.row
    rows = row * rng.permutation(SIZE // row)[:32]
    given = {role: rng.integers(0, 1 << 32, (32, each.registers), each.container.register_dtype)
             for role, each in instruction.fragments.items()}  # fmt: skip
    found = []

    def kernel(warp, buffer):
        warp.core.block.shared.bytes[:SIZE] = content
        generic = not instruction.words.get("ss")
        near = warp.generic(rows) if generic else rows
        pointer = int(buffer) + 256 if space == "global" else warp.generic(256) if generic else 256
        given["addresses"] = near.astype(np.uint64 if general else np.int64)
        given["pointer"] = np.array(pointer) if general else pointer
        given["stride"] = stride
        d = warp.run(instruction, *[given[source.role] for source in instruction.sources])
        found.append(warp.core.block.shared.bytes.copy())
        if d is not None:
            found.append(d.bits.copy())
            (role,) = instruction.fragments if "wmma" in instruction.family else "d"
            assert d.origin == (instruction, role, target)

    def observe(event):
        if isinstance(event, events.Accessed):
            told = event.space, event.writes, event.addresses.tolist(), event.size, event.extent, event.lanes.tolist()
            found.append(told)
            assert event.collective

    memory = content.copy()
    launch(kernel, 1, 32, (memory,), shared=SIZE, target=target, observers=[observe])
    return [*found, memory]


def spaces(instruction):
    """The spaces in which its addresses can lie."""
    if "wmma" not in instruction.family:
        return ["shared"]
    named = instruction.words.get("ss", "").partition("::")[0]
    return [named] if named else ["shared", "global"]


@pytest.mark.slow
@pytest.mark.parametrize("family", MOVES.values(), ids=MOVES)
def test_both_ways_are_one(row, family):
    asked = 0
    for _, instruction in family.variants:
        target = home(instruction)
        if not target or move_of(instruction) is None:
            continue
        for space in spaces(instruction):
            stride = 48 if asked % 2 else 64
            with row(f"{instruction.opcode} in {space} memory"):
                short, general = (seen(instruction, way, target, space, stride) for way in (False, True))
                assert len(short) == len(general)
                for one, other in zip(short, general, strict=True):
                    assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
            asked += 1
    assert asked


def test_elements_that_change_their_width_go_the_general_way():
    growing = [each for _, each in MOVES["ldmatrix"].variants if "src_fmt" in each.words]
    small = [each for _, each in MOVES["wmma.load"].variants if each.words["type"] in ("s4", "u4", "b1")]
    assert growing
    assert small
    assert {move_of(each) for each in growing + small} == {None}


def test_rows_at_one_address_must_be_equal():
    def kernel(warp, stored):
        warp.run("stmatrix.sync.aligned.m8n8.x1.shared.b16", 0 * warp.laneid, stored)

    with pytest.raises(MemoryFault, match="store different rows at address 0; which"):
        launch(lambda warp: kernel(warp, np.arange(32, dtype=np.uint32)[:, None]), 1, 32, (), shared=64)
    launch(lambda warp: kernel(warp, np.full((32, 1), 7, np.uint32)), 1, 32, (), shared=64)


@pytest.mark.parametrize(("opcode", "count"), [
    ("stmatrix.sync.aligned.m8n8.x4.shared.b16", 4),
    ("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", 4),
    ("movmatrix.sync.aligned.m8n8.trans.b16", 1),
    ("wmma.store.d.sync.aligned.row.m16n16k16.shared.f16", 4),
    ("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", 8),
])  # fmt: skip
def test_some_registers_of_a_bank_are_moved_as_an_array_of_their_content_is(opcode, count):
    bits = np.random.default_rng(0).integers(0, 1 << 32, (32, 2 * count), np.uint32)
    columns = np.random.default_rng(1).permutation(2 * count)[:count]
    before = [] if "movmatrix" in opcode else [0] if "wmma" in opcode else [16 * np.arange(32)]
    found = []

    def kernel(warp):
        for held in (Bank(bits.copy()).view(columns), np.ascontiguousarray(bits[:, columns])):
            d = warp.run(opcode, *before, held, *[16] * ("wmma" in opcode))
            found.append(warp.core.block.shared.bytes.copy() if d is None else d.bits.copy())
            warp.core.block.shared.bytes[:] = 0

    launch(kernel, 1, 32, shared=SIZE)
    assert found[0].any()
    assert np.array_equal(*found)
