"""Complete kernels that multiply matrices, from a simple one to a pipelined one: examples to read.

Each module has a `kernel`, which is what a learner would write, and `multiply`, which launches it. Each gives the same
bits as tcemu.matmul with the same instruction.
"""

from tcemu.gemm import mma_pipeline, wgmma_tma, wmma_global

__all__ = ["mma_pipeline", "wgmma_tma", "wmma_global"]
