"""Campaigns on a GPU: record golden files, verify the emulator on fresh inputs, measure clock cycles."""

__all__ = ["measure", "minimise", "record", "tcgen05", "verify"]
