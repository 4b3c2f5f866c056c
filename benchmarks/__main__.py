"""Run all benchmarks, one after the other: python -m benchmarks.

speed.py only prints its table here; alone, it writes it into this folder's README.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    "startup", "matmul", "batches", "classes", "every", "speed --print", "moves", "launch", "sliders", "check",
    "timeline", "ptx", "cuda_kernels",
    "peers",  # the last, because it ends here if the extra `peers` is not installed
)  # fmt: skip
for script in SCRIPTS:
    name, *options = script.split()
    print(f"\n== benchmarks/{name}.py", flush=True)
    sys.argv = [str(HERE / f"{name}.py"), *options]
    runpy.run_path(sys.argv[0], run_name="__main__")
