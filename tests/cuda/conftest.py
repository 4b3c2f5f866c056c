"""What tests of CUDA C++ share."""

import pytest

from tcemu import cuda


@pytest.fixture
def nvrtc():
    """The test needs NVRTC, which the extra `cuda` installs on Linux and Windows."""
    if not cuda.available():
        pytest.skip("NVRTC is not installed")
