"""Campaigns on a GPU: record golden files, verify the emulator on new inputs, measure clock cycles."""
