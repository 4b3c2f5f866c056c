"""The same instructions on a GPU of yours: run them there, compare the answers with the emulator's, run CUDA C++.

    tcemu.live.available()                              is there a GPU to ask? tcemu.live.why_not() says what is missing
    tcemu.live.run(instruction, *operands)              as tcemu.run, answered by the GPU
    tcemu.live.compare(instruction, *operands)          both, and the first bit that differs
    tcemu.live.answer(instruction, *operands)           the GPU's answer, or the recorded one where there is no GPU
    tcemu.live.cuda(source, kernel, grid, block, ...)   compile CUDA C++ and run it

Needs the extra `gpu` (pip install "tcemu[gpu]") and NVIDIA's driver. Nothing of CUDA is loaded into this process:
another one holds the GPU, so that a kernel that crashes or hangs takes that one down and not yours.
"""

from tcemu.live.answers import Answer, answer
from tcemu.live.compare import Comparison, Difference, compare
from tcemu.live.cuda import cuda
from tcemu.live.device import Device, available, device, why_not
from tcemu.live.run import run

__all__ = [
    "Answer",
    "Comparison",
    "Device",
    "Difference",
    "answer",
    "available",
    "compare",
    "cuda",
    "device",
    "run",
    "why_not",
]
