"""The same instructions on your own GPU: run them, compare the results with the emulator's, run CUDA C++.

    tcemu.live.available()                              is there a GPU? tcemu.live.why_not() says what is missing
    tcemu.live.run(instruction, *operands)              like tcemu.run, but the GPU answers
    tcemu.live.compare(instruction, *operands)          both answers, and the first bit that differs
    tcemu.live.answer(instruction, *operands)           the GPU's answer; without a GPU, the recorded or emulated one
    tcemu.live.cuda(source, kernel, grid, block, ...)   compile CUDA C++ and run it
    tcemu.live.tensor_map(array, box, ...)              an argument of such a kernel, for cp.async.bulk.tensor

It needs NVIDIA's driver and the extra `gpu`; why_not() says how to install it. No CUDA code is loaded into this
process: another process holds the GPU, so a kernel that crashes or hangs takes down that process, not yours.

    process/     the process that holds the GPU, and the way to it
    ptx.py       PTX as text
    runner/      one instruction: its kernel, the launch, the answer
    campaigns/   many instructions: record golden files, verify the emulator, measure clock cycles
"""

from tcemu.live.process.device import Device, available, device, why_not
from tcemu.live.runner.answers import Answer, answer
from tcemu.live.runner.compare import Comparison, Difference, compare
from tcemu.live.runner.cuda import cuda
from tcemu.live.runner.run import run
from tcemu.machine.mapped import Mapped, tensor_map

__all__ = [
    "Answer",
    "Comparison",
    "Device",
    "Difference",
    "Mapped",
    "answer",
    "available",
    "compare",
    "cuda",
    "device",
    "run",
    "tensor_map",
    "why_not",
]
