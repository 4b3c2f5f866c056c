"""Test vectors: inputs that tell rules apart, the same on every machine, and complete cases made of them.

    cases(instruction, kind, warps)     the cases of an instruction on one class of inputs
    classes(instruction)                the classes of inputs that differ for it
    case.answer(run)                    what `run` answers: the emulator here, a GPU in tcemu.live
    digest(registers)                   what a golden file keeps of an answer

Everything follows from a text, the key, by way of a hash: whoever knows the key has the inputs, so that only answers
need to be kept. There is no GPU in here.
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
