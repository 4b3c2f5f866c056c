"""Fixtures of several files."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def card(monkeypatch, request):
    """The GPU that the test's parameter names in live_fakes; by default the emulator plays it."""
    import live_fakes

    from tcemu.live import process

    name = getattr(request, "param", "EmulatedGpu")
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import live_fakes; "
    monkeypatch.setattr(process, "START_CODE", f"{start}from tcemu.live.worker import main; main(live_fakes.{name})")
    monkeypatch.setattr(sys.modules["tcemu.live.device"], "_installed", lambda _module: True)
    if [name] != live_fakes.RUNNING or name != "EmulatedGpu":  # starting one takes a while
        process.close()
    live_fakes.RUNNING[:] = [name]
    return name
