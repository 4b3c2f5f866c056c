"""tcemu measure: what instructions cost on this machine's GPU in clock cycles, as a table with its provenance.

    tcemu.live.campaigns.measure.measure(folder)          writes folder/sm_90a.json, as tcemu.timing.costs reads it
    tcemu measure FOLDER                        the same

One block on one SM, timed with clock64 (probe.py says how). The kernels come from the tables: every mma.sync, mma.sp
and wgmma of the GPU, loads and stores of shared memory, copies, barriers. The suite "arithmetic" has what a softmax
needs, the suite "blocks" what blocks wait for, with two to eight of them.
"""

from tcemu.live.campaigns.measure.run import SUITES, measure

__all__ = ["SUITES", "measure"]
