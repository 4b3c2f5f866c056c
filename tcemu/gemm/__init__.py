"""Complete kernels that multiply matrices, from a simple one to a pipelined one: examples to read.

Each module has a `kernel`, which is what a learner would write, and `multiply`, which launches it. Each gives the same
bits as tcemu.matmul with the same instruction.
"""

import os
from pathlib import Path

from tcemu.gemm import mma_pipeline, wgmma_tma, wmma_global
from tcemu.machine import sites

__all__ = ["mma_pipeline", "wgmma_tma", "wmma_global"]

#: Reports name lines of these modules, as they name those of any kernel.
sites.KERNELS.append(f"{Path(__file__).parent}{os.sep}")
