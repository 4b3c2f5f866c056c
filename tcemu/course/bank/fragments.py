"""Exercises of notebook 02: which lane holds which element."""

from __future__ import annotations

from tcemu.course.judges import where_map
from tcemu.course.record import Exercise

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"

EXERCISES = [
    Exercise(
        "where_of_a",
        "Where is A[row][column]?",
        "Write `where_of_a(row, column)`, which returns the lane and the register that hold element A[row][column] of "
        "`mma.sync` m16n8k16 with f16 operands.",
        where_map(_MMA, "a"),
        minutes=10,
        know="the layout line of notebook 02",
        section="9.7.14.5.8",
        hints=(
            'print mma.fragments["a"].layout, and read which digits make up the lane.',
            "The lane is 4 g + t. Which part of the row is g, and which part of the column is t?",
            "A register holds two neighbours of a row. Which two questions about row and column does it answer?",
        ),
    ),
]
