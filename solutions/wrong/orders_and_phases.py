"""Wrong answers of notebook 11 about orders and phases, with words that the diagnosis contains."""

# ---------------------------------------------------------------------------------------------- orders

ORDER = (
    "st.shared: the tiles",
    "fence.proxy.async",
    "bar.sync",
    "wgmma.fence, just before the mma_async",
    "wgmma.mma_async",
    "wgmma.commit_group",
    "wgmma.wait_group 0",
    "st.global: the accumulator",
)


def order(first, second):
    """The right order with two places swapped."""

    def numbers(given):
        lines = list(ORDER)
        lines[first], lines[second] = lines[second], lines[first]
        return [given.lines.index(line) for line in lines]

    return "given", numbers


def phases(full, empty):
    return lambda step_, stages: (step_ % stages, full(step_, stages) % 2, empty(step_, stages) % 2)


WRONG = {
    "order_of_wgmma": [
        (order(1, 2), "barrier is before fence.proxy.async"),
        (order(5, 6), "commit first"),
        (order(6, 7), "read before the wait"),
        (order(3, 4), "comes before the mma_async"),
    ],
    "phases_of_a_stage": [
        (phases(lambda i, n: 0, lambda i, n: 1), "never flip"),
        (phases(lambda i, n: i, lambda i, n: i + 1), "flip with every step"),
        (phases(lambda i, n: i // n, lambda i, n: i // n), "never ends"),
        (phases(lambda i, n: i // n + 1, lambda i, n: i // n), "swapped"),
        (lambda step, stages: (step // stages, step % stages % 2, (step % stages + 1) % 2), "stage and turn are"),
    ],
}
