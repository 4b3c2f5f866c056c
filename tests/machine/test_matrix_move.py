"""ldmatrix, stmatrix and movmatrix in a kernel: the short way answers and reports what the way of all operands does."""

import numpy as np
import pytest
from forms import home

from tcemu.errors import OperandError
from tcemu.instructions.table import FAMILIES
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.machine.matrix_move import move_of

MOVES = [family for family in FAMILIES if family.name in ("ldmatrix", "stmatrix", "movmatrix")]
SIZE = 4096


def seen(instruction, dtype, target):
    """Registers, shared memory and accesses after one execution; the short way takes addresses of int64 only."""
    rng = np.random.default_rng(0)
    content = rng.integers(0, 256, SIZE, np.uint8)
    row = instruction.facts.row
    rows = row * rng.permutation(SIZE // row)[:32]
    stored = {role: rng.integers(0, 1 << 32, (32, each.registers), np.uint32)
              for role, each in instruction.fragments.items()}  # fmt: skip
    found = []

    def kernel(warp):
        warp.core.block.shared.bytes[:SIZE] = content
        at = rows if instruction.words.get("ss") else warp.generic(rows)
        given = {"addresses": at.astype(dtype), "a": stored.get("a")}
        d = warp.run(instruction, *[given[source.role] for source in instruction.sources])
        found.extend([None if d is None else d.bits.copy(), warp.core.block.shared.bytes.copy()])
        if d is not None:
            assert d.origin == (instruction, "d", target)

    def observe(event):
        if isinstance(event, events.Accessed):
            found.append((event.space, event.writes, event.addresses.tolist(), event.size, event.lanes.tolist()))
            assert event.collective

    launch(kernel, 1, 32, (), shared=SIZE, target=target, observers=[observe])
    return found


@pytest.mark.parametrize("family", MOVES, ids=lambda family: family.name)
def test_both_ways_are_one(row, family):
    asked = 0
    for _, instruction in family.variants:
        target = home(instruction)
        if target and move_of(instruction) is not None:
            with row(instruction.opcode):
                short, general = (seen(instruction, dtype, target) for dtype in (np.int64, np.uint64))
                assert len(short) == len(general)
                for one, other in zip(short, general, strict=True):
                    assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
            asked += 1
    assert asked


def test_elements_that_grow_in_registers_go_the_general_way():
    growing = [each for _, each in MOVES[0].variants if "src_fmt" in each.words]
    assert growing
    assert {move_of(each) for each in growing} == {None}


def test_rows_at_one_address_must_be_equal():
    def kernel(warp, stored):
        warp.run("stmatrix.sync.aligned.m8n8.x1.shared.b16", 0 * warp.laneid, stored)

    with pytest.raises(OperandError, match="store different rows at address 0; which"):
        launch(lambda warp: kernel(warp, np.arange(32, dtype=np.uint32)[:, None]), 1, 32, (), shared=64)
    launch(lambda warp: kernel(warp, np.full((32, 1), 7, np.uint32)), 1, 32, (), shared=64)
