"""The recorder of ordinary instructions: its kernel gives the H200's sums here too."""

import numpy as np
import pytest
import record_alu as recorder
from places import GOLDEN

from tcemu import cuda

ROWS = (
    "add.rn.f32", "lop3.b32, 27", "lop3.and.b32, 232|", "subc.cc.u32", "setp.lt.or.f32|", "cvt.s32.s8",
    "rsqrt.approx.f64", "vadd.u32.s32.u32.sat.max",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("nvrtc")
def test_the_recorder_asks_what_the_golden_file_has(row):
    file = dict(np.load(GOLDEN / "sm_90a-alu.npz"))
    numbers = {file["names"].tolist().index(name): name for name in ROWS}
    record = cuda.compile(recorder.source(numbers), arch="sm_90a")["record"]

    def ask(asked, given, blocks):
        sums = np.zeros(blocks, np.uint64)
        fields = {name: getattr(asked, name) for name, _ in asked._fields_}
        given = {f"special{place}": values for place, values in enumerate(given)}
        given |= {f"special{place}": np.uint64(0) for place in range(len(given), 4)}
        kinds = {f"kind{place}": np.int32(kind) for place, kind in enumerate(asked.kinds)}
        wide = {name: np.uint64(fields[name]) for name in ("number", "first", "count")}
        rest = {name: np.int32(fields[name]) for name in ("mode", "fewer", "places")}
        record(blocks, 256, cuda.struct("Job", sums=sums, **given, **wide, **kinds, **rest), sanitizer="off")
        return sums

    for number, name in numbers.items():
        kinds = file["kinds"][number]
        with row(name):
            assert recorder.special(number, kinds, file, ask) == file["special"][number]
            assert ask(recorder.job(number, kinds, recorder.RANDOM, 1 << 14, 14), [], 1)[0] == file["first"][number]


def test_the_recorder_asks_for_every_operand_of_at_most_32_bits():
    file, asked = dict(np.load(GOLDEN / "sm_90a-alu.npz")), {}

    def ask(job, given, blocks):
        if job.mode == recorder.ADJACENT:
            asked[job.number] = (job.count, blocks << job.places)
        return np.zeros(blocks, np.uint64)

    recorder.recorded(file, ask)
    bits = {number: int(kinds[0]) % 100 for number, kinds in enumerate(file["kinds"]) if not kinds[1]}
    assert asked == {number: (2**few, 2**few) for number, few in bits.items() if few <= 32}
    assert sorted(asked) == np.flatnonzero(file["every"]).tolist()
