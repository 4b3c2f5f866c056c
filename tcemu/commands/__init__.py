"""The longer commands of ``tcemu``, one module each; what a command needs is imported when it runs."""

__all__ = ["isa", "live", "measure", "warm"]
