"""A fixture for pytest: kernels in CUDA C++ and PTX, tested without a GPU, in several orders and with the sanitizer.

A line in conftest.py gives it to the tests beside it:

    pytest_plugins = ["tcemu.testing"]

    def test_scale(tcemu_kernels):
        scale = tcemu_kernels("scale.cu")["scale"]
        x = np.arange(1000, dtype=np.float32)
        scale[8, 128](x, 2.0, x.size)
        assert (x == 2 * np.arange(1000)).all()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tcemu.errors import TcemuError

_PACKAGE = Path(__file__).parent
#: The orders in which each launch of a test runs: under each policy for asynchronous effects, each of these seeds.
POLICIES, SEEDS = ("late", "early", "random"), 4


@pytest.fixture
def tcemu_kernels(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """A function that compiles CUDA C++ or reads PTX: a file beside the test, or text.

    Its other arguments are those of tcemu.cuda.compile: define=, include=, options=. Every launch of the test, also of
    kernels in Python, runs in several orders. The test fails at the first rule that the sanitizer finds broken, with
    the kernel's line, and if the result depends on the order.
    """
    from tcemu.launcher import replacing

    folder = request.path.parent
    with replacing(_in_several_orders):
        yield lambda source, *words, **options: _module(folder, source, *words, **options)


def _module(folder: Path, source: str, *words: Any, **options: Any) -> Any:
    """The module of a file, or of text."""
    from tcemu import cuda, ptx

    if "\n" in source:
        return ptx.load(source, *words) if ".version" in source else cuda.compile(source, *words, **options)
    file = folder / source
    return ptx.load(file, *words) if file.suffix == ".ptx" else cuda.compile(file, *words, **options)


def _in_several_orders(kernel: Any, grid: Any, block: Any, args: Any, **options: Any) -> Any:
    """Takes the place of tcemu.launch. A launch that names its order runs in that one."""
    from tcemu.launcher import launch, replacing

    orders = options["seed"], options["seeds"], options["schedule"], options["policy"]
    if orders == (0, None, None, "late"):
        options |= {"policy": POLICIES, "seeds": SEEDS}
    with replacing(None):
        result = launch(kernel, grid, block, args, **options)
    if result.parted:
        parted = "\n".join(map(str, result.parted))
        pytest.fail(f"{kernel.__qualname__}: the result depends on the order\n{parted}", pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A test whose kernel is wrong shows its own lines and the message, which has the kernel's, not those of tcemu."""
    try:
        return (yield)
    except TcemuError as error:
        if "tcemu_kernels" not in pyfuncitem.fixturenames:
            raise
        raise error.with_traceback(_outside(error.__traceback__)) from None


def _outside(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package."""
    frames: list[TracebackType] = []
    while traceback is not None:
        if not Path(traceback.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
            frames.append(traceback)
        traceback = traceback.tb_next
    made = None
    for each in reversed(frames):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made
