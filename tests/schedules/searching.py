"""How the tests of rare orders launch a row of their tables, and search for the order in which it fails."""

import tcemu
from tcemu.errors import LaunchError

#: Runs after which the search leaves a mended twin alone.
MENDED = 20


def search(row, mended=False, **more):
    return tcemu.search_schedules(*row.arguments(mended), **row.options, check=row.check, work=10**12, **more)


def fails(row, mended=False, **more):
    """Whether a launch fails."""
    kernel, grid, block, args = row.arguments(mended)
    try:
        tcemu.launch(kernel, grid, block, args, **row.options, **more)
        if row.check is not None:
            row.check(*args)
    except (LaunchError, AssertionError):
        return True
    return False
