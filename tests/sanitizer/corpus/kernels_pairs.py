"""The table of pairs: one kernel with a mistake of other people and, called with `right` instead, without it."""

import inspect
from dataclasses import dataclass

import numpy as np

import tcemu
from tcemu.errors import LaunchError

MARK = "# <- reported"


@dataclass(frozen=True)
class Pair:
    """A kernel(warp, right, *arrays), its arrays, how it is launched, and the rules one of which it breaks."""

    kernel: object
    rules: tuple
    arrays: object
    options: dict

    @property
    def name(self):
        return self.kernel.__name__

    @property
    def lines(self):
        """The lines one of which is to be reported first."""
        lines, first = inspect.getsourcelines(self.kernel)
        return {first + number for number, text in enumerate(lines) if text.rstrip().endswith(MARK)}

    def reports(self, right, arrays=None, **options):
        """The sanitizer's reports, without hints; `arrays` get the results."""
        given = (right, *(self.arrays() if arrays is None else arrays))
        try:
            result = tcemu.launch(self.kernel, args=given, sanitizer="collect", **self.options, **options)
        except LaunchError as error:
            raise AssertionError(f"{self.name}, {options}, no report, but: {error}") from error
        return [report for report in result.reports if report.severity == "error"]

    def check_reported(self, **options):
        found = self.reports(False, **options)
        assert found, f"{self.name}, {options}: nothing reported"
        self._check_first(found[0], options)

    def check_found(self):
        """The default search finds an order in which the first report is right."""
        options = dict(self.options)
        grid, block = options.pop("grid", 1), options.pop("block", 32)
        (failure,) = tcemu.search_schedules(self.kernel, grid, block, (False, *self.arrays()), **options).failures
        self.check_reported(schedule=str(failure.schedule))

    def _check_first(self, first, options):
        assert first.rule in self.rules, f"{self.name}, {options}:\n{first}"
        assert {site.line for site in (first.site, *first.callers)} & self.lines, f"{options}:\n{first}"

    def check_silent(self, **options):
        """Nothing is reported; returns what the arrays hold afterwards."""
        arrays = self.arrays()
        found = self.reports(True, arrays, **options)
        assert not found, f"{self.name}, {options}:\n{found[0]}"
        return b"".join(map(bytes, arrays))


PAIRS: list[Pair] = []


def pair(rules, *sizes, **options):
    """Put a kernel into the table; it gets an array of zeros, u32, for each of `sizes`."""

    def add(kernel):
        named = (rules,) if isinstance(rules, str) else tuple(rules)
        PAIRS.append(Pair(kernel, named, lambda: [np.zeros(size, np.uint32) for size in sizes], options))
        return kernel

    return add


def leader(warp):
    """Only thread 0 of the block."""
    return warp.only(warp.threads == 0)
