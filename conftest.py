"""What tests and notebooks share: how hypothesis searches, and Jupyter kernels that depend on nobody's settings."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

# No deadline: the first example may compile a kernel. In continuous integration the same examples each time, so that a
# failure there is one that the change caused; elsewhere new ones each time, so that they are searched in the end.
settings.register_profile("tcemu", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("tcemu")

# What is compiled depends on the cache, so it is no part of a notebook's outputs; nor is anybody's IPython profile.
os.environ.setdefault("TCEMU_QUIET", "1")
_IPYTHON = tempfile.TemporaryDirectory(prefix="tcemu-ipython-", ignore_cleanup_errors=True)
os.environ["IPYTHONDIR"] = _IPYTHON.name


def pytest_addoption(parser):
    """Add what pyproject.toml cannot."""
    parser.addoption("--live", action="store_true", help="ask the GPU of this machine too: tests/live/test_live.py")
    parser.addoption("--seeds", type=int, default=0, help="so many orders of the warps for every kernel (slow tests)")


def pytest_configure(config):
    """Tell nbval what may differ in the outputs of notebooks, from wherever pytest is started."""
    if getattr(config.option, "nbval", False) and not config.option.nbval_sanitize_with:
        config.option.nbval_sanitize_with = str(Path(__file__).parent / "tests" / "nbval.cfg")
