"""The table of words through which native code of a kernel and its executor speak: their places, by name."""

from __future__ import annotations

#: Words of 64 bits: addresses on the host, sizes in bytes, and what a segment leaves when it ends.
WORDS = {
    name: place
    for place, name in enumerate(
        (
            "registers", "parameters", "parameter_bytes", "shared", "shared_bytes", "memory", "ranges", "range_count",
            "local", "local_bytes", "window", "local_window",
            "fuel", "taken", "target", "exits", "log", "observed", "stored", "counts",
        )
    )
}  # fmt: skip
#: The first word of the addresses of an access, one for each lane, and of the data that it moves.
SCRATCH, DATA = 32, 64
#: All words: an access moves at most 32 bytes a lane.
TOTAL = DATA + 32 * 4
