"""Where a warp is: special registers have the same values in the box and outside."""

from types import SimpleNamespace

import pytest

from tcemu.grade.inside.warp import RemoteCore
from tcemu.grade.warps import Work
from tcemu.machine.launch import launch
from tcemu.machine.special_registers import SpecialRegisters
from tcemu.machine.warp import Warp

REGISTERS = [name for name, each in vars(SpecialRegisters).items() if isinstance(each, property)]
CLOCKS = {"clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"}


@pytest.mark.parametrize("cluster", [None, (2, 1, 1)])
def test_special_registers_are_the_same_inside_and_outside(row, cluster):
    def kernel(warp):
        place = Work(warp, frozenset(), []).place()
        inside = Warp(RemoteCore(None, SimpleNamespace(**place)))
        for name in sorted(set(REGISTERS) - CLOCKS):
            with row(f"{name} {warp.ctaid} {warp.warpid}"):
                assert str(getattr(inside, name)) == str(getattr(warp, name))
        for name in ("clock", "clock64", "globaltimer"):
            with row(f"{name} {warp.ctaid} {warp.warpid}"):
                assert getattr(inside, name) < getattr(inside, name)

    launch(kernel, (2, 2), (10, 3, 2), shared=100, cluster=cluster)
