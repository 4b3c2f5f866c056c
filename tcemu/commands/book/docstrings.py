"""The package's docstrings, which are plain text with `code`, examples and indented blocks, as reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def processed(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Sphinx's event autodoc-process-docstring: replace the lines by reStructuredText."""
    lines[:] = [line for block in _blocks(lines) for line in (*_block(block), "")]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """The paragraphs, and in them the blocks that are indented further than the line before."""
    block: list[str] = []
    for line in lines:
        # a list is indented, without empty lines around it
        turns = bool(block) and ((_is_item(line) and not _is_item(block[0])) or _indent(line) < _indent(block[0]))
        if not line.strip() or turns:
            if block:
                yield block
            block = []
        if line.strip():
            block.append(line)
    if block:
        yield block


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_item(line: str) -> bool:
    return line.startswith("  - ")


def _block(block: list[str]) -> list[str]:
    first = block[0].lstrip()
    if first.startswith(">>> "):
        return block
    if _is_item(block[0]):
        cut = _indent(block[0])
        return [_prose(line[cut:]) for line in block]
    if _indent(block[0]) >= 4:
        return ["::", "", *(f"    {line}" for line in block)]
    return [_prose(line.strip()) for line in block]


def _prose(line: str) -> str:
    """A line of prose: `code` in reStructuredText's way, and no accidental emphasis."""
    parts = re.split("(:[a-z]+:`[^`]+`|``?[^`]+``?)", line)
    return "".join(_code(part) if number % 2 else _plain(part) for number, part in enumerate(parts))


def _code(part: str) -> str:
    return part if part.startswith((":", "``")) else f"``{part.strip('`')}``"


def _plain(part: str) -> str:
    return re.sub(r"([*|_\\])", r"\\\1", part)
