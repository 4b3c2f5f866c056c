"""What tests and notebooks share: how hypothesis searches, how notebooks are compared, and a neutral environment."""

import gc
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline, because the first example may compile a kernel. Continuous integration uses the same examples every time,
# so that a failure there is caused by the change; elsewhere, and by night (TCEMU_DAY=today), they are new every time.
FIXED = "CI" in os.environ and "TCEMU_DAY" not in os.environ
settings.register_profile("tcemu", deadline=None, derandomize=FIXED, print_blob=True)
settings.load_profile("tcemu")

# What is compiled depends on the cache, so it does not belong in a notebook's outputs; nor does an IPython profile.
os.environ.setdefault("TCEMU_QUIET", "1")
_IPYTHON = tempfile.TemporaryDirectory(prefix="tcemu-ipython-", ignore_cleanup_errors=True)
os.environ["IPYTHONDIR"] = _IPYTHON.name

# The kernels are what is tested, from the first answer on; otherwise the reference gives a process its first few.
if find_spec("numba"):
    os.environ.setdefault("TCEMU_KERNELS", "numba")

# The tests start a hundred processes. Without bytecode each compiles the package again, and each worker all the tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# For one format of text, which no notebook has, jsonschema imports a package that compiles 38 grammars: 4 seconds in
# each process that imports nbformat. jsonschema also works without it.
ABSENT = str(Path(__file__).parent / "tests" / "absent")
sys.path.insert(0, ABSENT)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ABSENT, os.environ.get("PYTHONPATH")]))

#: nbval's options and what they are here. It runs every notebook and compares each output with the committed one. The
#: timeout also bounds how long a dead kernel goes unnoticed; the kernel is the interpreter that runs the tests.
NBVAL = {
    "--nbval": {"action": "store_true", "default": True},
    "--nbval-lax": {"action": "store_true"},
    "--nbval-sanitize-with": {"default": str(Path(__file__).parent / "tests" / "nbval.cfg")},
    "--nbval-current-env": {"action": "store_true", "default": True},
    "--nbval-kernel-name": {},
    "--nbval-cell-timeout": {"type": float, "default": 1200.0},
    "--nbval-kernel-startup-timeout": {"type": float, "default": 600.0},
    "--nbdime": {"action": "store_true"},
}


def pytest_addoption(parser):
    """Add what pyproject.toml cannot."""
    parser.addoption("--live", action="store_true", help="ask the GPU of this machine too: tests/live/test_live.py")
    parser.addoption("--thorough", action="store_true", help="ask every row of every table, and twice as many examples")
    parser.addoption("--seeds", type=int, default=0, help="so many orders of the warps for every kernel (slow tests)")
    for name, given in NBVAL.items():
        parser.addoption(name, help=f"of nbval; here {given.get('default')}", **given)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Two workers more than there are cores: the tests of browsers, boxes and servers mostly wait.

    The quick part has none of these, and a worker takes as long to begin as a thirtieth of its tests.
    """
    return (os.cpu_count() or 1) + 2 * ("not slow" not in config.option.markexpr)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Nobody looks for garbage among the tests while they are collected: they are many, and all of them stay.

    Afterwards it is looked for more rarely than in Python: what tests keep, tables and parsed kernels, is not garbage,
    and going through all of it again and again took up to a sixth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        gc.enable()


def pytest_collect_file(file_path, parent):
    """Let nbval have the notebooks. As a plugin it would be imported by every process: seconds, mostly for nothing."""
    if file_path.suffix == ".ipynb" and (parent.config.option.nbval or parent.config.option.nbval_lax):
        from nbval.plugin import IPyNbFile

        return IPyNbFile.from_parent(parent, path=file_path)
    return None
