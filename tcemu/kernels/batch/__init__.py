"""Many small tiles at once, from registers into registers; one file for each step, see README.md."""

__all__ = ["gather", "load", "multiply", "plan", "run"]
