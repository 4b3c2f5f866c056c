r"""What Nsight Compute counts for the twins of tcemu.gemm, as tests/golden/sm_90a-counters.json.

On a machine with a GPU and ncu:

    ncu --clock-control none --target-processes all --csv --page raw \
        --metrics "$(python tools/count_twins.py --metrics)" python tools/count_twins.py > counted.csv
    python tools/count_twins.py --read counted.csv tests/golden/sm_90a-counters.json

Without arguments, the script only runs the twins, one after the other. The tests compare tcemu.timing.Counters with the
file.
"""

from __future__ import annotations

import csv
import datetime
import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tcemu import live, sparse
from tcemu.gemm import mma_pipeline, mma_sparse, twins
from tcemu.instructions import parse

#: What is counted: our name, and ncu's.
METRICS = {
    "wavefronts of loads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "wavefronts of stores": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "sectors of loads": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "sectors of stores": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "sectors from L2": "lts__t_sectors_srcunit_tex_op_read.sum",
    "ldmatrix": "smsp__inst_executed_op_ldsm.sum",
    "cp.async": "smsp__inst_executed_op_ldgsts.sum",
    "tensor instructions": "sm__inst_executed_pipe_tensor.sum",
}
#: Rows, columns and depth of the matrices.
SIZE = 128


def matrices() -> tuple[Any, Any]:
    """A and B of every kernel; any numbers do."""
    return np.ones((SIZE, SIZE), np.float16), np.ones((SIZE, SIZE), np.float16)


def crowded() -> None:
    """mma_pipeline's twin with its units in their natural order."""
    a, b = matrices()
    d = np.zeros((SIZE, SIZE), np.float32)
    stages = 3
    text = twins.source("mma_pipeline", twins.inline(parse(mma_pipeline.MMA), "mma"))
    options = [f"-I{twins.FOLDER}", f"-DSTAGES={stages}", "-DSWIZZLED=0"]
    sizes = [np.int32(SIZE)] * 3
    shared = stages * mma_pipeline.STAGE_BYTES
    live.cuda(text, "kernel", (2, 2), 128, a, b, d, *sizes, shared=shared, options=options)


#: Each launches one kernel.
RUNS: dict[str, Callable[[], object]] = {
    "wmma_global": lambda: twins.wmma_global(*matrices()),
    "mma_pipeline": lambda: twins.mma_pipeline(*matrices()),
    "mma_pipeline, no swizzle": crowded,
    "mma_sparse": lambda: twins.mma_sparse(sparse.prune(matrices()[0], mma_sparse.MMA), matrices()[1]),
    "wgmma_tma": lambda: twins.wgmma_tma(*matrices()),
    "wgmma_epilogue": lambda: twins.wgmma_epilogue(*matrices(), np.zeros(SIZE, np.float32)),
}


def read(source: str, target: str) -> None:
    """Write the golden file from ncu's table."""
    lines = [line for line in Path(source).read_text(encoding="utf-8").splitlines() if line.startswith('"')]
    head, _, *rows = csv.reader(lines)
    columns = {name: head.index(metric) for name, metric in METRICS.items()}
    counted = {
        name: {what: int(row[column].replace(",", "")) for what, column in columns.items()}
        for name, row in zip(RUNS, rows, strict=True)
    }
    gpu = rows[0][head.index("device__attribute_display_name")]
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    provenance = {"gpu": gpu, "date": date, "command": "ncu ... python tools/count_twins.py", "metrics": METRICS}
    made = {"provenance": provenance, "size": SIZE, "kernels": counted}
    Path(target).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("--metrics", action="store_true", help="print the names by which ncu knows what is counted")
    options.add_argument("--read", nargs=2, metavar=("COUNTED", "GOLDEN"), help="write a golden file from ncu's table")
    given = options.parse_args()
    if given.metrics:
        print(",".join(METRICS.values()))
    elif given.read:
        read(*given.read)
    else:
        for run in RUNS.values():
            run()
