"""The tables of kernels in the wild: idioms and mistakes of well-known libraries and of their bug trackers, retold.

Nothing here is quoted: each kernel is the idea, in our own words and at the size of a test. A kernel is called with
the pointers to its arrays. What a correct one computes is compared with numpy; the numbers are small integers, so that
every sum is exact in whatever order. The line that a faulty one is to be reported at ends in "# <- reported".
"""

import inspect
from dataclasses import dataclass, field

import numpy as np

import tcemu
from tcemu.errors import LaunchError

MARK = "# <- reported"
POLICIES = ("late", "early", "random")


@dataclass(frozen=True)
class Row:
    """A kernel, its arrays, how it is launched; what it computes, or the rules one of which it breaks."""

    kernel: object
    arrays: object
    options: dict = field(default_factory=dict)
    expect: object = None
    rules: tuple = ()

    @property
    def name(self):
        return self.kernel.__name__

    @property
    def lines(self):
        """The lines one of which is to be reported first."""
        lines, first = inspect.getsourcelines(self.kernel)
        marked = [first + number for number, text in enumerate(lines) if text.rstrip().endswith(MARK)]
        assert marked, f"{self.name} has no marked line"
        return marked

    def launch(self, **options):
        """The reports of a launch, and its arrays afterwards."""
        given = self.arrays()
        result = tcemu.launch(self.kernel, args=given, sanitizer="collect", **self.options, **options)
        return result, given

    def check_silent(self, **options):
        """No report at all but hints, no error, and the numbers of numpy."""
        told = f"{self.name}, {options}"
        try:
            result, given = self.launch(**options)
        except LaunchError as error:
            raise AssertionError(f"{told}: {error}") from error
        found = [report for report in result.reports if report.severity != "hint"]
        assert not found, f"{told}:\n{found[0]}"
        if self.expect is not None:
            before = self.arrays()
            np.testing.assert_array_equal(given[-1], self.expect(*before[:-1]), told)

    def check_reported(self, **options):
        """The first report is of one of the rules, at one of the marked lines."""
        told = f"{self.name}, {options}"
        result, _ = self.launch(**options)
        assert result.reports, f"{told}: nothing reported"
        first = result.reports[0]
        assert first.rule in self.rules, f"{told}:\n{first}"
        lines = {site.line for site in (first.site, *first.callers)}
        assert not lines.isdisjoint(self.lines), f"{told}:\n{first}"


CORRECT: list[Row] = []
FAULTY: list[Row] = []


def correct(arrays, expect=None, **options):
    """Put a kernel into the table of those that are right; the last array is what `expect` of the others answers."""

    def add(kernel):
        CORRECT.append(Row(kernel, arrays, {"block": 128, **options}, expect))
        return kernel

    return add


def faulty(rules, arrays=None, **options):
    """Put a kernel into the table of those that break a rule; with several, each is a right word for the mistake."""

    def add(kernel):
        named = (rules,) if isinstance(rules, str) else tuple(rules)
        FAULTY.append(Row(kernel, arrays or words(4096), {"block": 128, **options}, None, named))
        return kernel

    return add


# ------------------------------------------------------------------------------------------------ arrays


def small(*shape, seed=0, dtype=np.float16):
    """Integers from -2 to 2: their products and sums are exact."""
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(dtype)


def words(count, out=None):
    """Arrays: `count` words 0, 1, 2..., and where `out` is given as many zeros."""
    return lambda: (np.arange(count, dtype=np.uint32), *([] if out is None else [np.zeros(out, np.uint32)]))


def matrices(m, n, k, *, out=np.float32):
    """Arrays: A (m, k) and B (n, k) of f16, D (m, n) of zeros."""
    return lambda: (small(m, k, seed=1), small(n, k, seed=2), np.zeros((m, n), out))


def product(a, b):
    """A B^T."""
    return a.astype(np.float64) @ b.astype(np.float64).T


# ------------------------------------------------------------------------------------------------ what kernels share


def one(warp):
    """Only one lane of this warp."""
    return warp.only(warp.elect_sync())


def leader(warp, thread=0):
    """Only one thread of the block."""
    return warp.only(warp.threads == thread)


def floats(bits):
    """Registers as f32."""
    return np.asarray(bits).view(np.float32)


def bits(values):
    """f32 as registers."""
    return np.asarray(values, np.float32).view(np.uint32)
