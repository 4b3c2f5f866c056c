"""What changes how warps run: registers, sleep, dependent grids (PTX ISA 9.1, 9.7.13.13 and 9.7.20)."""

from __future__ import annotations

from tcemu.instructions.plain import THREAD, WARP, family, one

REGISTERS = family(
    "setmaxnreg",
    "setmaxnreg.{action}.sync.aligned.u32",
    "9.7.20.5",
    [one("8.0", "sm_90a sm_100f sm_110f sm_120f", WARP, action="inc dec")],
    signature="= register_count",
    about="sets how many registers each thread may use from now on",
    rules=(
        "The count is a multiple of 8 from 24 to 256.",
        ".inc waits until other warps have given back enough; .dec gives back at once.",
        "All warps of a warpgroup must execute the same one. The content of registers that are given back is lost.",
    ),
)
SLEEP = family(
    "nanosleep",
    "nanosleep.u32",
    "9.7.20.2",
    [one("6.2")],
    signature="= duration",
    changes=False,
    about="pauses for about the given number of nanoseconds",
    rules=("It takes at most twice the duration, and at most a millisecond. In this machine a pause has no duration.",),
)
DEPENDENTS = family(
    "griddepcontrol",
    "griddepcontrol.{action}",
    "9.7.13.13",
    [one("7.8", "sm_90", THREAD, action="wait launch_dependents")],
    signature="=",
    changes=False,
    about="waits for the grids that this one depends on, or lets its dependent grids start",
    rules=("Without programmatic dependent launch it does nothing. In this machine grids run one at a time.",),
)
FAMILIES = (REGISTERS, SLEEP, DEPENDENTS)
