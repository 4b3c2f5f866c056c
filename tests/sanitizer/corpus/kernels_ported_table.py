"""The table of ported kernels: public kernels at the size of a test, and mistakes that people make in them.

A kernel is called with `fault` in front of its arrays: None, or which of its mistakes to make. Where the mistake is to
be reported, the line names it: "# <- no fence; no barrier". What the kernel computes is compared with numpy; the
numbers are small integers, so that every sum is exact in whatever order. An origin that begins with "after" was not
followed line by line: its idea is retold.
"""

import inspect
from dataclasses import dataclass

import numpy as np

import tcemu
from tcemu.errors import LaunchError

MARK = "# <- "


@dataclass(frozen=True)
class Port:
    """A kernel(warp, fault, *arrays), where it comes from, what its last array becomes, and the rules it can break."""

    kernel: object
    origin: str
    arrays: object
    expect: object
    faults: dict
    #: how often the kernel is launched on the same arrays
    launches: int
    options: dict

    @property
    def name(self):
        return self.kernel.__name__

    def lines(self, fault):
        """The lines of which one must be reported first; a comment on a separate line marks the next one."""
        lines, first = inspect.getsourcelines(self.kernel)
        found, above = set(), []
        for number, text in enumerate(lines):
            code, _, names = text.partition(MARK)
            named = [*above, *names.strip().split("; ")]
            above = [] if code.strip() else named
            if code.strip() and fault in named:
                found.add(first + number)
        return found

    def launch(self, fault, **options):
        """The sanitizer's reports, without hints, and the arrays before and after; later launches use them."""
        before, given = self.arrays(), self.arrays()
        for _ in range(self.launches):
            try:
                result = tcemu.launch(self.kernel, args=(fault, *given), sanitizer="collect", **self.options, **options)
            except LaunchError as error:
                raise AssertionError(f"{self.name}, {fault}, {options}, no report, but: {error}") from error
            found = [report for report in result.reports if report.severity == "error"]
            if found:
                break
        return found, before, given

    def check_silent(self, **options):
        found, before, given = self.launch(None, **options)
        assert not found, f"{self.name}, {options}:\n{found[0]}"
        np.testing.assert_array_equal(given[-1], self.expect(*before), f"{self.name}, {options}")

    def check_reported(self, fault, **options):
        told = f"{self.name}, {fault}, {options}"
        found, _, _ = self.launch(fault, **options)
        assert found, f"{told}: nothing reported"
        rules = self.faults[fault]
        assert found[0].rule in ((rules,) if isinstance(rules, str) else rules), f"{told}:\n{found[0]}"
        assert {site.line for site in (found[0].site, *found[0].callers)} & self.lines(fault), f"{told}:\n{found[0]}"


PORTED: list[Port] = []


def ported(origin, arrays, expect, faults, *, launches=1, **options):
    """Put a kernel into the table; `faults` has for each mistake the rule, or the rules one of which it breaks."""

    def add(kernel):
        PORTED.append(Port(kernel, origin, arrays, expect, faults, launches, options))
        return kernel

    return add
