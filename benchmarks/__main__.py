"""Run all benchmarks, one after the other: python -m benchmarks."""

import runpy
from pathlib import Path

HERE = Path(__file__).parent
for script in ("startup", "matmul", "batches", "families", "launch", "sliders", "check", "timeline"):
    print(f"\n== benchmarks/{script}.py", flush=True)
    runpy.run_path(str(HERE / f"{script}.py"), run_name="__main__")
