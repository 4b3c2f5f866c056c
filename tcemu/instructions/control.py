"""Instructions that control how warps run: registers, sleep, dependent grids (PTX ISA 9.1, 9.7.13.13 and 9.7.19)."""

from __future__ import annotations

from tcemu.instructions.plain import THREAD, WARP, family, one

REGISTERS = family(
    "setmaxnreg",
    "setmaxnreg.{action}.sync.aligned.u32",
    "9.7.19.5",
    [one("8.0", "sm_90a sm_100f sm_110f sm_120f", WARP, action="inc dec")],
    signature="= register_count",
    about="sets how many registers a thread may use from now on",
    rules=(
        "The count must be a multiple of 8 from 24 to 256.",
        ".inc waits until other warps have given back enough.",
        "All warps of a warpgroup execute the same one. Registers that .dec gives back lose their contents.",
    ),
)
SLEEP = family(
    "nanosleep",
    "nanosleep.u32",
    "9.7.19.2",
    [one("6.2")],
    signature="= duration",
    changes=False,
    about="pauses for about the given number of nanoseconds",
    rules=("It lasts at most twice that, and at most a millisecond. Here it takes no time: other warps run first.",),
)
DEPENDENTS = family(
    "griddepcontrol",
    "griddepcontrol.{action}",
    "9.7.13.13",
    [one("7.8", "sm_90", THREAD, action="wait launch_dependents")],
    signature="=",
    changes=False,
    about="waits for the grids that this one depends on, or lets the grids that depend on it start",
    rules=(
        "Without programmatic dependent launch it does nothing; here that is a launch outside a tcemu.Stream.",
        "A block that exits without .launch_dependents lets the next grid begin as it exits.",
        "Before .wait returns, nothing that the grid before writes may be relied on.",
    ),
)
FAMILIES = (REGISTERS, SLEEP, DEPENDENTS)
