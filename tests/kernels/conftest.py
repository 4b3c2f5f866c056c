"""Without this, the reference would give the first small answers, and be compared with itself."""

import pytest

from tcemu.backend import backend


@pytest.fixture(autouse=True)
def _kernels_compute():
    """Choose the kernels, if numba is installed, for this process."""
    backend()


@pytest.fixture
def _subnormals_are_slow(monkeypatch):
    """Compute as on a processor that takes long for subnormal numbers."""
    raised64 = pytest.importorskip("tcemu.kernels.raised64")
    monkeypatch.setattr(raised64, "subnormals_are_slow", lambda: True)
