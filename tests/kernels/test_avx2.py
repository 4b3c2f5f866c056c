"""Batches on a processor that has AVX2 but not AVX-512, for which numba compiles here if it is told to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from quick import spread, turn

pytest.importorskip("numba")

from llvmlite.binding import get_host_cpu_features

from tcemu.kernels.emit.lanes import whole_vectors_of_words

TESTS = Path(__file__).parent
#: Tests of three groups of functions, each of which takes seconds to compile: every day another one.
ASKED = spread(("gives_the_same_alone", "f64", "side_by_side"), 3, first=turn(3))


@pytest.mark.slow
@pytest.mark.skipif(not whole_vectors_of_words(), reason="this processor has no AVX-512 to leave out")
def test_without_avx512(request, tmp_path):
    """The tests of batches, of classes alone or side by side or of f64, give the same there.

    What is compiled for them is kept from run to run beside what pytest keeps, if it keeps anything.
    """
    kept = getattr(request.config, "cache", None)
    compiled = kept.mkdir("avx2") if kept else tmp_path
    features = ",".join(
        ("+" if has and not name.startswith("avx512") else "-") + name for name, has in get_host_cpu_features().items()
    )
    told = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(compiled)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0"]
    command += [str(TESTS / name) for name in ("test_classes.py", "test_batches.py")]
    command += ["-k", " or ".join(ASKED)]
    done = subprocess.run(
        command,
        env=os.environ | told,
        cwd=TESTS.parent.parent,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
