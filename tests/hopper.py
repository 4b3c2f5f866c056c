"""Tests whose CUDA code is compiled for sm_90a: they run with --live, on a GPU of that target."""

import pytest

from tcemu import live


def need(request: pytest.FixtureRequest, what: str) -> None:
    """Skip a test unless it may use a GPU of sm_90a; `what` names the code that needs it."""
    if not request.config.getoption("--live"):
        pytest.skip("asks a GPU only with --live")
    missing = live.why_not()
    if missing:
        pytest.skip(f"no GPU: {missing}")
    if live.device().target != "sm_90a":
        pytest.skip(f"{live.device().name}: {what} for sm_90a")
