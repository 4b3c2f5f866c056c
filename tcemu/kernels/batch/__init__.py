"""Many small tiles at once, from registers into registers; one file for each step, see README.md."""

__all__ = ["abi", "gather", "load", "others", "plan", "run"]
