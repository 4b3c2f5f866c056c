"""The version of this package; it is defined here only."""

__version__ = "1.0.0"
