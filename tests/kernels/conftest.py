"""Without this, the reference would give the first small answers, and be compared with itself."""

import pytest

from tcemu.backend import backend


@pytest.fixture(autouse=True)
def _kernels_compute():
    """Choose the kernels, if numba is installed, for this process."""
    backend()
