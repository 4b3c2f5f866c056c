"""docs/card.md: its layouts and cycles are those of the tables, and it stays one page."""

import re

from places import ROOT

import tcemu
from tcemu.timing.costs import costs

CARD = (ROOT / "docs" / "card.md").read_text(encoding="utf-8")


def rows(title):
    part = CARD.split(f"## {title}")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_layouts_are_those_of_the_table():
    opcode, seen = "", 0
    for first, role, layout in rows("Who holds what"):
        opcode = first.strip("`") or opcode
        assert layout.strip("`") == str(tcemu.parse(opcode).fragments[role.lower()].layout), opcode
        seen += 1
    assert seen == 8


def test_cycles_are_those_that_were_measured():
    for what, cycles in rows("How fast"):
        opcode = re.match("`(.+)`", what)[1]
        fixed = {"a": "shared"} if opcode.startswith("wgmma") else {"warps": 1}
        assert round(costs("sm_90a").find(opcode, "interval", fixed).median) == int(cycles), opcode


def test_it_stays_one_page():
    assert len(CARD.splitlines()) <= 70
