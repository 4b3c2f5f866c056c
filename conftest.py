"""Settings for tests and notebooks: how hypothesis searches, and Jupyter kernels independent of user settings."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

# No deadline, because the first example may compile a kernel. Continuous integration uses the same examples every time,
# so that a failure there is caused by the change; elsewhere they are new every time, so that more of them are tried.
settings.register_profile("tcemu", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("tcemu")

# What is compiled depends on the cache, so it does not belong in a notebook's outputs; nor does an IPython profile.
os.environ.setdefault("TCEMU_QUIET", "1")
_IPYTHON = tempfile.TemporaryDirectory(prefix="tcemu-ipython-", ignore_cleanup_errors=True)
os.environ["IPYTHONDIR"] = _IPYTHON.name


def pytest_addoption(parser):
    """Add the options that pyproject.toml cannot."""
    parser.addoption("--live", action="store_true", help="also ask this machine's GPU: tests/live/test_live.py")
    parser.addoption("--seeds", type=int, default=0, help="number of orders of the warps for every kernel (slow tests)")


def pytest_configure(config):
    """Configure what nbval lets differ in the outputs of notebooks, wherever pytest is started."""
    if getattr(config.option, "nbval", False) and not config.option.nbval_sanitize_with:
        config.option.nbval_sanitize_with = str(Path(__file__).parent / "tests" / "nbval.cfg")
