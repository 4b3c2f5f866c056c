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


def tile_turned(m, n, k, rows, columns):
    """Blocks counted along the other side of the tile."""
    return 2 * k * (m * -(-n // rows) + n * -(-m // columns))


def everything(m, n, k, rows, columns):
    """Both matrices for each block."""
    return 2 * k * (m + n) * -(-m // rows) * -(-n // columns)


def with_d(m, n, k, rows, columns):
    """The result, too, in float32."""
    return 2 * k * (m * -(-n // columns) + n * -(-m // rows)) + 4 * m * n


def from_the_beginning(tile, step, steps, stages):
    """As if each tile had mbarriers of its own."""
    return step % stages, step // stages % 2, (step // stages + 1) % 2


def turn_of_the_tile(tile, step, steps, stages):
    """The stage goes on, the phases do not."""
    return (tile * steps + step) % stages, step // stages % 2, (step // stages + 1) % 2


def whole_rings(tile, step, steps, stages):
    """Each tile goes once round the ring."""
    turn, stage = divmod(tile * stages + step, stages)
    return stage, turn % 2, (turn + 1) % 2


def by_step(tile, step, steps, stages):
    """Flipped at each step."""
    done = tile * steps + step
    return done % stages, done % 2, (done + 1) % 2


def by_tile(tile, step, steps, stages):
    """Flipped at each tile."""
    return (tile * steps + step) % stages, tile % 2, (tile + 1) % 2


def never_flipped(tile, step, steps, stages):
    """Right in the first turn."""
    return (tile * steps + step) % stages, 0, 1


def same_parity(tile, step, steps, stages):
    """Both wait for the same phase."""
    turn, stage = divmod(tile * steps + step, stages)
    return stage, turn % 2, turn % 2


def turns(tile, step, steps, stages):
    """Not mod 2."""
    turn, stage = divmod(tile * steps + step, stages)
    return stage, turn, turn + 1


# ---------------------------------------------------------------------------------------------- mbarriers


WRONG = {
    "copied_bytes": [
        (once, "counted once"),
        (elements, "elements"),
        (whole_tiles, "that exist"),
        (rounded_down, "round"),
        (tile_turned, "Rows and columns of the tile are swapped"),
        (everything, "all of A and B for each block"),
        (with_d, "D is not copied"),
    ],
    "stage_and_parities": [
        (from_the_beginning, "The ring and its mbarriers go on"),
        (turn_of_the_tile, "The stage is right"),
        (whole_rings, "not one for each stage"),
        (by_step, "The parities follow the step"),
        (by_tile, "flip from tile to tile"),
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
