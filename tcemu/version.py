"""The version of this package; it is defined here only."""

__version__ = "0.1.0"
