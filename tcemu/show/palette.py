"""Colours, each in a light and a dark shade.

Colour is never the only carrier of a meaning: whatever is marked also has a thick border, hatching and a label. The
hues (blue, orange, green, yellow) are distinguishable in the common kinds of colour blindness and differ in lightness.
"""

from __future__ import annotations

from typing import NamedTuple


class Shade(NamedTuple):
    """One role in the light and the dark theme; `variable` is JupyterLab's CSS variable for it, if there is one."""

    light: str
    dark: str
    variable: str = ""


#: Colours of text, lines and borders.
INKS = {
    "ink": Shade("#1a1a1a", "#f2f2f2", "--jp-content-font-color1"),
    "soft": Shade("#4f4f4f", "#c4c4c4"),
    "blue": Shade("#00487a", "#9bd4ff"),
    "orange": Shade("#7d3200", "#ffc59a"),
    "green": Shade("#00513b", "#8ee6c6"),
}

#: Colours behind text.
SURFACES = {
    "paper": Shade("#ffffff", "#111111", "--jp-layout-color0"),
    "faint": Shade("#f3f3f3", "#262626"),
    "blue-fill": Shade("#dcedf9", "#12344c"),
    "orange-fill": Shade("#fde6d6", "#47260f"),
    "green-fill": Shade("#d9f2e8", "#0f3a2e"),
    "mark": Shade("#ffe680", "#574700"),
}

#: Colours of what only separates: cell borders, axes, hatching.
LINES = {
    "line": Shade("#8a8a8a", "#7a7a7a"),
    "hatch": Shade("#b08f00", "#b59b35"),
    "cut": Shade("#8f8f8f", "#8a8a8a"),
}

ROLES = INKS | SURFACES | LINES

#: Selectors of the dark theme in JupyterLab and nbconvert, VS Code, Colab.
_DARK = ('[data-jp-theme-light="false"]', ".vscode-dark", 'html[theme="dark"]')


def variables(identifier: str) -> str:
    """The CSS that gives the picture called `identifier` its colours in every theme."""
    dark = ",".join(f"{theme} #{identifier}" for theme in _DARK)
    return (
        f"#{identifier}{{{_declare('light')}}}{dark}{{{_declare('dark')}}}"
        f"@media (prefers-color-scheme:dark){{#{identifier}:root{{{_declare('dark')}}}}}"
    )


def _declare(theme: str) -> str:
    colours = {role: getattr(shade, theme) for role, shade in ROLES.items()}
    for role, shade in ROLES.items():
        if shade.variable:
            colours[role] = f"var({shade.variable},{colours[role]})"
    return ";".join(f"--tc-{role}:{colour}" for role, colour in colours.items())
