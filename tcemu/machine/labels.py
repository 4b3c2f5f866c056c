"""Numbers that print as the kernel knows them."""

from __future__ import annotations

from typing import Self


class Labelled(int):
    """A number that prints as another text."""

    text: str

    def __new__(cls, number: int, text: str) -> Self:
        """The number, and how it prints."""
        self = super().__new__(cls, number)
        self.text = text
        return self

    def __str__(self) -> str:
        return self.text

    def __format__(self, how: str) -> str:
        return self.text
