"""What an error says, as a value: a notebook can show it without stopping there."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from tcemu.arguments import explained
from tcemu.errors import OperandError, TcemuError


@dataclass(frozen=True)
class Refusal:
    """An error's type and message; a notebook and a terminal show it as text.

    >>> tcemu.show.Refusal("OperandError", "a lane is a number from 0 to 31; got 32")
    OperandError: a lane is a number from 0 to 31; got 32
    """

    kind: str
    message: str

    def __str__(self) -> str:
        lines = f"{self.kind}: {self.message}".splitlines()
        return "\n".join(textwrap.fill(line, 110, break_on_hyphens=False) for line in lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        style = "overflow-wrap:anywhere"  # an opcode is one long word
        if "\n" in self.message:  # a report of the sanitizer
            style += ";white-space:pre-line"
        return f'<p style="{style}"><strong>{escape(self.kind)}</strong>: {escape(self.message)}</p>'


@explained
def refusal(function: Callable[..., object], *args: Any, **options: Any) -> Refusal:
    """The error with which tcemu rejects a call, as text. Raises OperandError if the call is not rejected.

    >>> tcemu.show.refusal(tcemu.parse, "mma.sync.aligned.m16n8k16.row.col.f32.f32.f32.f32").kind
    'IllegalInstruction'
    """
    try:
        function(*args, **options)
    except TcemuError as error:
        return Refusal(type(error).__name__, str(error))
    raise OperandError("the call is not rejected: it returns a result")
