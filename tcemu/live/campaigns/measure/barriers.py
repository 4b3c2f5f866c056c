"""Probes of instructions that order or wait: bar.sync, mbarrier, fences, the groups of wgmma; and the clock itself."""

from __future__ import annotations

from collections.abc import Iterator

from tcemu.instructions import target_named
from tcemu.live import ptx
from tcemu.live.campaigns.measure.probe import Part, Probe, always

_COPIES = 8


def barriers(target: str, version: str) -> Iterator[Probe]:
    """All probes that the target has."""
    chip = target_named(target)
    for warps in (1, 2, 4, 8, 16, 32):
        yield _alone(f"bar_sync_{warps}", 32 * warps, {"bar.sync": "bar.sync 0;"})
    yield _alone(
        "fences",
        32,
        {
            "membar.cta": "membar.cta;",
            "membar.gl": "membar.gl;",
        },
    )
    if chip.number >= 90:
        for warps in (1, 4, 16):
            yield _mbarrier(warps)
        yield _alone("proxy", 32, {"fence.proxy.async": "fence.proxy.async;"})
    if str(chip) == "sm_90a":
        groups = {"fence": ptx.WGMMA_FENCE, "commit_group": ptx.WGMMA_COMMIT, "wait_group": ptx.wgmma_wait(0)}
        yield _alone("wgmma", 128, {f"wgmma.{name}": text for name, text in groups.items()})


def _alone(name: str, threads: int, texts: dict[str, str]) -> Probe:
    """A sequence of one instruction, executed by all warps."""
    parts = tuple(
        Part(instruction, "interval", {"warps": threads // 32}, always(text), _COPIES)
        for instruction, text in texts.items()
    )
    return Probe(parts=parts, threads=threads, name=name)


def _mbarrier(warps: int) -> Probe:
    """One lane of each warp arrives and all wait for the phase to complete: a barrier of the block."""

    def arrive(_: int, __: str) -> str:
        return "@%first mbarrier.arrive.shared.b64 %state, [%base+8];"

    def both(_: int, tag: str) -> str:
        wait = ptx.try_wait(tag, "%base", "%phase")
        return f"@%first mbarrier.arrive.shared.b64 %state, [%base]; {wait} xor.b32 %phase, %phase, 1;"

    how = {"warps": warps}
    return Probe(
        parts=(
            Part("mbarrier.arrive; mbarrier.try_wait", "latency", how, both, _COPIES),
            Part("mbarrier.arrive", "interval" if warps == 1 else "SM interval", how, arrive, _COPIES, warps),
        ),
        threads=32 * warps,
        declare=".reg .b32 %phase, %second; .reg .b64 %state; .reg .pred %done, %zero;",
        setup="mov.u32 %phase, 0; setp.eq.u32 %zero, %thread, 0; "
        f"@%zero mbarrier.init.shared.b64 [%base], {warps}; @%zero mbarrier.init.shared.b64 [%base+8], 1; bar.sync 0;",
        name=f"mbarrier_{warps}",
    )
