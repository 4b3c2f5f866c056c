"""Test vectors: inputs that distinguish rules, the same on every machine, and complete cases made of them.

    cases(instruction, kind, warps)     the cases of an instruction on one class of inputs
    classes(instruction)                the classes of inputs that differ for it
    case.answer(run)                    the answer of `run`: the emulator here, a GPU in tcemu.live
    digest(registers)                   what a golden file stores of an answer

A text, the key, determines everything by way of a hash: those who know the key have the inputs, so only answers need to
be stored. Nothing in here uses a GPU.
"""

from tcemu.vectors.cases import Case, cases, classes, digest, emulator, matrices
from tcemu.vectors.inputs import metadata, registers
from tcemu.vectors.patterns import CLASSES, elements

__all__ = [
    "CLASSES",
    "Case",
    "cases",
    "classes",
    "digest",
    "elements",
    "emulator",
    "matrices",
    "metadata",
    "registers",
]
