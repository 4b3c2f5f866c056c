"""The smallest kernel that breaks each rule breaks this rule, at the line that it says, and no other rule before it."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

import tcemu
from tcemu.errors import TableError
from tcemu.machine import events
from tcemu.sanitizer import RULES
from tcemu.sanitizer.block import SECTIONS, section
from tcemu.sanitizer.rules import BYTES, EXAMPLES, breaks, rules

MARK = "# <- reported"


#: Rules that no kernel in Python can break: only CUDA C++ has malloc.
CUDA_ONLY = {"uninitialised-heap"}


def test_every_rule_has_one():
    assert set(EXAMPLES) == set(RULES) - CUDA_ONLY


def test_rules_are_in_the_order_of_the_manual():
    places = [tuple(map(int, rule.section.split("."))) for rule in RULES.values()]
    assert places == sorted(places)
    assert len(places) > 30


@pytest.mark.parametrize("rule", EXAMPLES)
def test_it_breaks_its_rule_at_the_marked_line(rule):
    example = EXAMPLES[rule]
    result = tcemu.launch(example.kernel, args=(np.zeros(BYTES, np.uint8),), sanitizer="collect", **example.launch)
    source, first = inspect.getsourcelines(example.kernel)
    marked = [first + number for number, line in enumerate(source) if line.rstrip().endswith(MARK)]
    assert result.reports[0].rule == rule
    assert result.reports[0].site.line in marked
    assert len(source) <= 14, "it is small"


def test_a_section_that_stands_alone_hears_each_block():
    """A new chapter needs no row elsewhere: its section registers itself."""
    heard = []

    class Exits:
        def __init__(self, block):
            self.handlers = {events.Exited: lambda event: heard.append((event.block, event.by.warp))}

    section(Exits)
    try:
        tcemu.launch(lambda warp: None, grid=2, block=64)
    finally:
        SECTIONS.remove(Exits)
    assert sorted(heard) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_rule_has_one_name_and_an_example_has_a_rule():
    with pytest.raises(TableError, match="two rules are called lane-race"):
        rules(replace(RULES["lane-race"], title="another"))
    with pytest.raises(TableError, match="no rule is called lane-rice"):
        breaks("lane-rice")
