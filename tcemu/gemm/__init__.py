"""Complete kernels that multiply matrices, from the simplest to a pipelined one: the machine at work, to be read.

Each module has a `kernel`, which is what a learner would write, and `multiply`, which launches it. All of them give, to
the bit, what tcemu.matmul gives with the same instruction.
"""

import os
from pathlib import Path

from tcemu.machine import sites

#: Reports name lines of these modules, as they name those of any kernel.
sites.KERNELS.append(f"{Path(__file__).parent}{os.sep}")
