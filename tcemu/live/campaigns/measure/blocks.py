"""Probes of what blocks wait for: flags and counters in global memory, and the barriers of a cluster.

Two blocks take turns: each waits for what the other does, then does the same for the other. A turn is from one block's
operation until the other block's wait for it has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcemu.instructions import target_named
from tcemu.live.campaigns.measure.probe import Body, Part, Probe, always

_COPIES = 8
#: Bytes between the two blocks' words: lines of the L2 apart.
_APART = 1024
_DECLARE = """.reg .b32 %rank, %other, %turn, %tally, %seen, %far, %phase, %v; .reg .b64 %mine, %yours, %word;
.reg .pred %second, %done, %lead, %there;"""
#: Block 1 writes no clocks, so that only block 0's come back.
_SETUP = f"""mov.u32 %rank, %ctaid.x; setp.ne.u32 %second, %rank, 0; xor.b32 %other, %rank, 1;
mov.u32 %turn, 0; mov.u32 %tally, 0; mov.u32 %phase, 0;
setp.eq.u32 %lead, %lane, 0; mov.u32 %v, 0;
@%second setp.ne.u32 %first, %rank, %rank;
mul.wide.u32 %mine, %rank, {_APART}; add.u64 %mine, %mine, %memory;
mul.wide.u32 %yours, %other, {_APART}; add.u64 %yours, %yours, %memory;
add.u64 %word, %memory, {2 * _APART};"""


def blocks(target: str, version: str) -> Iterator[Probe]:
    """All probes that the target has."""
    if target_named(target).number < 70:
        return
    yield _pair("flags", {"st.release.gpu; ld.acquire.gpu": (_flag, 2), "red.release.gpu; ld.acquire.gpu": (_count, 2)})
    texts = {
        "ld.acquire.gpu": "ld.acquire.gpu.global.u32 %v, [%word];",
        "ld.relaxed.gpu": "ld.relaxed.gpu.global.u32 %v, [%word];",
        "atom.acq_rel.gpu.add": "atom.acq_rel.gpu.global.add.u32 %v, [%word], %v;",
        "atom.relaxed.gpu.add": "atom.relaxed.gpu.global.add.u32 %v, [%word], %v;",
    }
    yield Probe(
        parts=tuple(Part(name, "latency", {"warps": 1}, _led(text), _COPIES) for name, text in texts.items()),
        declare=_DECLARE,
        setup=_SETUP,
        sink="st.volatile.global.b32 [%sink], %v;",
        memory=4 * _APART,
        name="strong_accesses",
    )
    if target_named(target).number >= 90:
        for ranks in (2, 4, 8):
            barrier = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
            yield _pair(f"cluster_{ranks}", {"barrier.cluster": (always(barrier), 1)}, ranks, clustered=True)
        yield _pair("remote", {"mbarrier.arrive.shared::cluster; mbarrier.try_wait": (_remote, 2)}, 2, clustered=True)


def _led(text: str) -> Body:
    """One lane executes it; the lane continues depending on its result, so that the next one waits for it."""
    return lambda _, tag: f"@%lead {text} setp.eq.u32 %there, %v, 0x7fffffff; @%there bra OVER{tag}; OVER{tag}:"


def _turns(counter: str, give: str, find: str) -> Body:
    """Block 0 signals, block 1 waits and signals, block 0 waits. `counter` counts the turns of this part."""

    def body(_: int, tag: str) -> str:
        wait = f"SPIN{tag}: {find} @!%done bra SPIN{tag};"
        return (
            f"add.u32 {counter}, {counter}, 1; @!%lead bra DONE{tag}; @%second bra SECOND{tag}; {give}\n"
            f"SECOND{tag}: {wait}\n@%second bra BACK{tag}; bra DONE{tag};\nBACK{tag}: {give}\nDONE{tag}:"
        )

    return body


def _reads(counter: str, place: str) -> str:
    return f"ld.acquire.gpu.global.u32 %seen, [{place}]; setp.ge.u32 %done, %seen, {counter};"


_flag = _turns("%turn", "st.release.gpu.global.u32 [%yours], %turn;", _reads("%turn", "%mine"))
_count = _turns("%tally", "red.release.gpu.global.add.u32 [%yours+512], 1;", _reads("%tally", "%mine+512"))
_remote = _turns(
    "%turn",
    "mapa.shared::cluster.u32 %far, %base, %other; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];",
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [%base], %phase;",
)


def _pair(
    name: str, texts: dict[str, tuple[Body | Callable[[int, str], str], int]], ranks: int = 2, clustered: bool = False
) -> Probe:
    """Blocks that all execute the same; `texts` are bodies and the turns in one of them."""
    last = "@%lead xor.b32 %phase, %phase, 1;" if "remote" in name else ""
    start = (
        "@%lead mbarrier.init.shared::cta.b64 [%base], 1; fence.mbarrier_init.release.cluster;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    )
    return Probe(
        parts=tuple(
            Part(instruction, "latency", {"blocks": ranks}, _then(body, last), _COPIES, per=turns)
            for instruction, (body, turns) in texts.items()
        ),
        declare=_DECLARE,
        setup=_SETUP + (start if clustered else ""),
        sink="barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if clustered else "",
        memory=4 * _APART,
        blocks=ranks,
        clustered=clustered,
        name=name,
    )


def _then(body: Body, last: str) -> Body:
    return lambda copy, tag: body(copy, tag) + last
