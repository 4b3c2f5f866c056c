"""Wrong answers of notebook 12 about counts and plans, with words that the diagnosis contains."""

from tcemu.gemm.wgmma_tma import Plan

# ---------------------------------------------------------------------------------------------- counts


def once(m, n, k, rows, columns):
    """Each matrix once."""
    return 2 * k * (m + n)


def elements(m, n, k, rows, columns):
    """Not bytes."""
    return k * (m * -(-n // columns) + n * -(-m // rows))


def whole_tiles(m, n, k, rows, columns):
    """Zeros at the edges count."""
    return 2 * k * (rows + columns) * -(-m // rows) * -(-n // columns)


def rounded_down(m, n, k, rows, columns):
    """The last blocks are missing."""
    return 2 * k * (m * (n // columns) + n * (m // rows))


def by_step(step, stages):
    """Flipped at each step."""
    return step % stages, step % 2, (step + 1) % 2


def never_flipped(step, stages):
    """Right in the first turn."""
    return step % stages, 0, 1


def same_parity(step, stages):
    """Both wait for the same phase."""
    return step % stages, step // stages % 2, step // stages % 2


def turns(step, stages):
    """Not mod 2."""
    return step % stages, step // stages, step // stages + 1


# ---------------------------------------------------------------------------------------------- mbarriers


WRONG = {
    "copied_bytes": [
        (once, "counted once"),
        (elements, "elements"),
        (whole_tiles, "that exist"),
        (rounded_down, "round"),
    ],
    "stage_and_parities": [
        (by_step, "follow the turn"),
        (never_flipped, "never flip"),
        (same_parity, "one phase behind"),
        (turns, "mod 2"),
    ],
    "better_plan": [
        (Plan(columns=64, stages=2, in_flight=1), "ahead"),
        (Plan(columns=64, stages=2, in_flight=0), "tile is small"),
        (Plan(columns=256, stages=2, in_flight=0), "tile is large"),
        (Plan(columns=256, stages=4), "fewer stages"),
        (Plan(stages=1), "more stages than groups"),
    ],
}
