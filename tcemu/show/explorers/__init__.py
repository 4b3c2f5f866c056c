"""The explorers, a module for each subject; tcemu.show.widgets has them all."""

__all__: list[str] = []
