"""Kernels of Triton on the emulator, from stored PTX: numpy's results, no error, lines of the Python source."""

import sys

import numpy as np
import pytest
import triton_kernels
from quick import some
from stored import stored
from triton_kernels import LAUNCHES

from tcemu.cuda import triton
from tcemu.errors import MissingPackage, OperandError
from tcemu.ptx import Module


def launched(name, target, **options):
    """The launch of a stored kernel, and its arguments."""
    _, grid, make, _ = LAUNCHES[name]
    kept, given = stored()["triton"]["kernels"][f"{name}-{target}"], make()
    module = Module(kept["ptx"], f"{name}.ptx", target)
    passed = tuple(each for each in given if not (isinstance(each, int) and each == 1))
    compiled = triton.Compiled(
        module, name.removesuffix("_fp8"), kept["warps"], 1, kept["shared"], kept["scratch"], passed, {}
    )
    return compiled.launch(grid, **options), given


def wanted(name, given):
    """What the kernel computes, in binary64: by the number of the argument, with how far off it may be."""
    given = [each.astype(np.float64) if isinstance(each, np.ndarray) else each for each in given]
    if name == "softmax":
        powers = np.exp(given[1] - given[1].max(1, keepdims=True))
        return {0: (powers / powers.sum(1, keepdims=True), 1e-6)}
    if name == "layernorm":
        x, _, weight, bias, *_ = given
        mean, scale = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-5)
        normal = (x - mean[:, None]) * scale[:, None] * weight + bias
        return {1: (normal, 1e-5), 4: (mean, 1e-6), 5: (scale, 1e-5)}
    if name == "attention":
        q, k, v = given[:3]
        powers = np.exp2(q @ k.T * given[4])
        return {3: (powers / powers.sum(1, keepdims=True) @ v, 2e-3)}
    return {2: (given[0] @ given[1], 0.02)}


CASES = [(name, target) for name in LAUNCHES for target in triton_kernels.TARGETS[name]]


@pytest.mark.parametrize(("name", "target"), some(CASES, 5))
def test_the_kernel_computes_what_numpy_does(name, target):
    result, given = launched(name, target, sanitizer="collect")
    for number, (values, far) in wanted(name, LAUNCHES[name][2]()).items():
        assert np.abs(given[number].astype(np.float64) - values).max() < far
    # Triton's kernels for sm_90 execute fence.proxy.async behind the barrier, not before it
    assert {report.rule for report in result.reports if report.severity == "error"} <= {"proxy-fence-barrier"}


def test_lines_are_those_of_the_python_source():
    kept = stored()["triton"]["kernels"]["softmax-sm_90a"]
    module = Module(kept["ptx"], "softmax.ptx", "sm_90a")
    files = {each.line.file for each in module.parsed.kernels[0].body if each.line}
    assert any(file.endswith("tests/cuda/triton_kernels.py") for file in files)


def test_a_kernel_is_compiled_and_run():
    pytest.importorskip("triton")
    function, grid, make, constants = LAUNCHES["softmax"]
    given = make()
    own = constants | {"num_warps": 2, "target": "sm_80", "seed": 2}
    triton.run(function, lambda bound: (bound["x"].shape[0],), *given, **own)
    values, far = wanted("softmax", make())[0]
    assert np.abs(given[0] - values).max() < far
    with pytest.raises(OperandError, match="softmax: missing a required argument: 'n'; its"):
        triton.run(function, grid, *given[:3], **constants)
    with pytest.raises(OperandError, match="softmax: n must be an array or a number; got 'many'"):
        triton.run(function, grid, *given[:3], "many", **constants)


def test_without_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    told = r"Triton's kernels need the package triton \(.*\); run: .*install triton"
    with pytest.raises(MissingPackage, match=told):
        triton.compiled(LAUNCHES["softmax"][0])
