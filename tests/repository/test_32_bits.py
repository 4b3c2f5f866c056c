"""Where numpy's index type has 32 bits, as on WebAssembly, addresses keep 64: nothing leaves their type to numpy.

`np.arange`, `np.array` of Python's numbers and `int` as a dtype give 32 bits there. Bytes of such an array that were
read back as 64 bits once made the sanitizer report a correct kernel. numpy's `take`, `repeat`, `bincount` and `choose`
in turn refuse 64-bit places there: what they are given names `np.intp`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from tcemu.machine.events import Area
from tcemu.sanitizer.tensor_state import Use

ROOT = Path(__file__).parents[2] / "tcemu"
#: Rooms that never run there, and those whose code is written as learners write it.
ELSEWHERE = {"kernels", "grade", "classroom", "live", "commands", "gemm", "course", "show"}
FILES = [
    path for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in ELSEWHERE and "rules" not in path.parts
]  # fmt: skip


def bare(source: str) -> list[str]:
    """The expressions of a source that leave the width of whole numbers to numpy."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _bare(node)]


def _bare(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(ast.Name("np"), "arange"):
            return len(call.args) < 4 and not _says(call)
        case ast.Attribute(ast.Name("np"), "array" | "asarray"):
            held = call.args[0] if call.args else None
            return len(call.args) == 1 and isinstance(held, ast.List | ast.Tuple | ast.ListComp) and not _says(call)
        case ast.Attribute(_, "astype"):
            return bool(call.args) and ast.unparse(call.args[0]) == "int"
        case _:
            return any(word.arg == "dtype" and ast.unparse(word.value) == "int" for word in call.keywords)


def _says(call: ast.Call) -> bool:
    return any(word.arg == "dtype" for word in call.keywords)


@pytest.mark.parametrize(
    "source",
    ["np.arange(8)", "np.arange(0, n, 4)", "np.array([place])", "np.array((1, 2))", "x.astype(int)", "f(x, dtype=int)"],
)
def test_a_width_left_to_numpy_is_found(source):
    assert bare(source) == [source]


@pytest.mark.parametrize("source", ["np.arange(8, dtype=np.int64)", "np.array([1], np.uint32)", "np.asarray(given)"])
def test_a_width_that_is_given_is_not_reported(source):
    assert bare(source) == []


def test_nothing_leaves_the_width_of_addresses_to_numpy():
    found = [f"{path.relative_to(ROOT)}: {each}" for path in FILES for each in bare(path.read_text(encoding="utf-8"))]
    assert len(FILES) > 200
    assert found == []


def test_what_needs_a_process_is_refused_in_a_browser_by_a_sentence(monkeypatch):
    from tcemu import cuda, errors, extras
    from tcemu.cuda.toolkit import toolkit

    monkeypatch.setattr(extras, "IN_BROWSER", True)
    toolkit.cache_clear()
    with pytest.raises(errors.NoProcesses, match=r"NVRTC.*as it was, needs a process of its own, and a page has none"):
        toolkit()
    assert not cuda.available()
    monkeypatch.undo()
    toolkit.cache_clear()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_cells_of_tensor_memory_are_the_same_ones_in_32_bits(kind):
    """Lanes that numpy's search has found: read as 64 bits, half of them were missing, and so were reports."""
    area = Area(0, np.arange(96, 128, dtype=kind), np.arange(16, dtype=kind))
    used = Use.of(None, area, writes=True)
    assert (used.lanes, used.columns) == ((1 << 32) - 1 << 96, (1 << 16) - 1)
