"""Whole CUDA programs, with main and the runtime API, without a GPU: nvcc compiles them, and their kernels run here.

`build` has nvcc make an executable, and PTX of each file. It is linked with runtime.cpp, a libcudart whose memory is a
file that both sides see; launches, variables and tensor maps are questions, which `serve` answers.
"""

from tcemu.cuda.program.serve import Ran, run_program

__all__ = ["Ran", "run_program"]
