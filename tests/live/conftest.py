"""The GPU that the tests in this folder use."""

from pathlib import Path

import fake_gpus
import pytest

from tcemu.live.process import client, device


@pytest.fixture
def card(monkeypatch, request):
    """The GPU that the test's parameter names in fake_gpus; by default the emulator plays it."""
    name = getattr(request, "param", "EmulatedGpu")
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import fake_gpus; "
    main = "from tcemu.live.process.worker import main"
    monkeypatch.setattr(client, "START_CODE", f"{start}{main}; main(fake_gpus.{name})")
    monkeypatch.setattr(device, "_installed", lambda _module: True)
    if [name] != fake_gpus.RUNNING:  # starting one takes a while
        client.close()
    fake_gpus.RUNNING[:] = [name]
    return name
