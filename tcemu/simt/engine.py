"""Which executor runs segments: native code or the reference, as `tcemu.backend` chooses for all kernels."""

from __future__ import annotations


def native() -> bool:
    """Whether segments are native code."""
    return False
