"""Wrong answers of notebook 06 about the order of k, with words that the diagnosis contains."""

import numpy as np

import tcemu

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"

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

# ---------------------------------------------------------------------------------------------- a chip, and parts of k


def another_way(given, near):
    """An answer to whose_bits that shares its target, or its splits, with the right one; or neither."""
    ways = [(target, splits) for target in (80, 90) for splits in (1, 2, 4)]

    def product(target, splits):
        share = 256 // splits
        parts = [
            tcemu.matmul(given.A[:, k : k + share], given.B[k : k + share], instruction=F16, target=f"sm_{target}")
            for k in range(0, 256, share)
        ]
        return sum(parts[1:], start=parts[0])

    right = next(way for way in ways if np.array_equal(product(*way), given.D))
    shared = {"target": (True, False), "splits": (False, True), "": (False, False)}[near]
    way = next(way for way in ways if tuple(x == y for x, y in zip(way, right, strict=True)) == shared)
    return {"target": way[0], "splits": way[1]}


WRONG = {
    "whose_bits": [
        (("given", lambda given: another_way(given, "target")), "The target is right."),
        (("given", lambda given: another_way(given, "splits")), "The splits are right."),
        (("given", lambda given: another_way(given, "")), "outputs have different bits"),
    ],
    "parts_of_k": [
        (("given", exchanged), "You swapped them"),
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
