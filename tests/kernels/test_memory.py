"""Kernels that read and write by address stay inside what they are given."""

import ast
from math import prod
from pathlib import Path

import numpy as np
import pytest
from quick import some

import tcemu
from tcemu.commands.works import works
from tcemu.instructions.table import family_of
from tcemu.vectors import cases, emulator

pytest.importorskip("numba")

from tcemu.kernels.batch import plan
from tcemu.kernels.host import memory

KERNELS = Path(plan.__file__).parents[1]
#: Elements before and behind an array, and the byte that they consist of.
GUARD, BYTE = 64, 0xA5


def computing():
    """Each arithmetic on each set of types, the smallest and the largest form of it."""
    return [each for each in works() if family_of(tcemu.parse(each.opcode, each.target)).computes]


def functions():
    """Every function of the kernels that numba compiles."""
    for path in sorted(KERNELS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(each) for each in node.decorator_list):
                yield path.stem, node


def addressed(function):
    """The names of the arrays whose addresses a function takes."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr == "ctypes":
            yield ast.unparse(node.value)


def outlive(function):
    """What exists after a function returns: its arguments, and the parts of an argument."""
    given = {each.arg for each in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in given:
            given |= {each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)}
    return given


def test_only_arrays_of_the_caller_are_used_by_address():
    """numba frees an array of the function itself after the last use of its name, whoever still has its address."""
    asked = {
        f"{module}.{function.name}: {name}": name in outlive(function)
        for module, function in functions()
        for name in addressed(function)
    }
    assert len(asked) > 20
    assert [name for name, outlives in asked.items() if not outlives] == []


class Guarded:
    """numpy, but what `empty` makes has guards on both sides."""

    def __init__(self):
        self.rooms = []

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype):
        count = prod(shape) if isinstance(shape, tuple) else int(shape)
        room = np.full((count + 2 * GUARD) * np.dtype(dtype).itemsize, BYTE, np.uint8).view(dtype)
        self.rooms.append(room)
        return room[GUARD : GUARD + count].reshape(shape)

    def broken(self):
        """Whether anything was written beside an array."""
        return any((side.view(np.uint8) != BYTE).any() for room in self.rooms for side in (room[:GUARD], room[-GUARD:]))


@pytest.mark.slow
def test_nothing_is_written_beside_an_array(row, monkeypatch):
    guarded, by_address = Guarded(), 0
    monkeypatch.setenv("TCEMU_KERNELS", "numba")
    monkeypatch.setattr(plan, "np", guarded)
    monkeypatch.setattr(memory, "empty", guarded.empty)
    asked = some(computing(), 40)
    for work in asked:
        with row(f"{work.opcode} on {work.target}"):
            for case in cases(tcemu.parse(work.opcode, work.target), "bits", warps=3):
                guarded.rooms = []
                monkeypatch.setattr(plan, "_KEPT", memory.Kept())  # so that it is made between guards
                case.answer(emulator(work.target))
                assert not guarded.broken(), case.key
            by_address += bool(guarded.rooms)
    assert by_address > 0.7 * len(asked)


def test_a_guard_shows_what_is_written_beside():
    guarded = Guarded()
    guarded.empty((3, 4), np.uint32).base[-GUARD] = 1
    assert guarded.broken()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (np.zeros((2, 127), np.uint32), "a tile has 128 words, contiguous uint32; got uint32 of shape \\(2, 127\\)"),
        (np.zeros((2, 128), np.uint64), "got uint64"),
        (np.zeros((2, 256), np.uint32)[:, ::2], "contiguous"),
    ],
)
def test_a_mistake_of_the_caller_reads_nothing(words, says):
    mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    product = tcemu.arithmetic.registers.plan_of(operation, mma.fragments)
    with pytest.raises(ValueError, match=says):
        product(words, np.zeros((2, 64), np.uint32), np.zeros((2, 128), np.uint32))
