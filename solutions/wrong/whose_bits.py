"""Wrong answers of notebook 06 about the order of k, with words that the diagnosis contains."""

import numpy as np

# ---------------------------------------------------------------------------------------------- what a probe shows


def read(given):
    """Parts and run, as the solution reads them."""
    run = int(np.argmax(np.diff(given.D[0, 1:]) != -1)) + 2
    return int(128 / (64 - given.D[0, run])), run


def exchanged(given):
    """The names the other way round."""
    parts, run = read(given)
    return {"parts": run, "run": parts}


def half_a_run(given):
    """The parts are counted well, the run is not."""
    parts, run = read(given)
    return {"parts": parts, "run": run // 2}


def one_part(given):
    """The run is right, and all runs are one sum."""
    return {"parts": 1, "run": read(given)[1]}


# ---------------------------------------------------------------------------------------------- an input that tells


def products(**at):
    """a and b with these products; k20=(1, 2) is 1 times 2 at k = 20."""
    a, b = np.zeros(256, np.float16), np.zeros(256, np.float16)
    for k, (x, y) in at.items():
        a[int(k[1:])], b[int(k[1:])] = x, y
    return {"a": a, "b": b}


ONES = {"a": np.ones(256), "b": np.ones(256)}
CANCELLED = products(k0=(4096, 4096), k20=(1, 1), k200=(-4096, 4096))
IN_THE_SAME_PART = products(k0=(4096, 4096), k16=(1, 1))
TOO_SMALL_A_REST = products(k0=(4096, 4096), k128=(1, 1), k144=(1, 1), k160=(1, 1))


WRONG = {
    "parts_of_k": [
        (("given", exchanged), "You exchanged them"),
        (("given", half_a_run), "The parts are right"),
        (("given", one_part), "The run is right"),
    ],
    "only_split_is_exact": [
        (ONES, "Nothing is lost"),
        (CANCELLED, "is negative"),
        (IN_THE_SAME_PART, "The parts lose as much"),
        (TOO_SMALL_A_REST, "the parts are not exact"),
    ],
}
