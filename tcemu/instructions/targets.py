"""Targets and gates: the GPUs and PTX versions, and which of them an instruction needs.

There are three kinds of target (PTX ISA 9.1, 11.1.2): code for `sm_90` runs on that GPU and every later one; code for
`sm_90a` ("architecture-specific") on that chip only; code for `sm_100f` ("family-specific", PTX 8.8) on that chip and
later ones of its family.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from tcemu.errors import Named, TargetError, briefly, listing, nearest, shown

#: Chips with their families; a family is named after its first chip.
_FAMILIES = {
    70: 70, 72: 70, 75: 75, 80: 80, 86: 80, 87: 80, 89: 89, 90: 90,
    100: 100, 103: 100, 107: 100, 110: 110, 120: 120, 121: 120,
}  # fmt: skip
#: The first chips that have architecture-specific and family-specific targets.
_FIRST_WITH_A, _FIRST_WITH_F = 90, 100
#: Names of GPUs and architectures, as regular expressions for the whole name in lower case without spaces. The products
#: and their numbers are those of NVIDIA's pages developer.nvidia.com/cuda-gpus and, for 7.0 and 7.2,
#: developer.nvidia.com/cuda-legacy-gpus; the architectures are those of CUTLASS's overview. The T5000 has a Thor.
_PRODUCTS = {
    r"(gtx|gt|mx)\d+\w*|p100|p40?|[km]\d+|titanxp?|pascal|maxwell|kepler": (),  # without tensor cores
    r"v100|gv100|titanv|volta": ("sm_70",),
    r"(agx)?xavier(nx)?": ("sm_72",),
    r"t4|t400|t600|t1000|titanrtx|rtx20\d0(ti)?|rtx[4568]000|turing": ("sm_75",),
    r"a100|a30": ("sm_80",),
    r"ampere": ("sm_80", "sm_86"),
    r"a2|a10|a16|a40|rtxa[2-6]000|rtx30\d0(ti)?": ("sm_86",),
    r"(agx)?orin(nx|nano)?": ("sm_87",),
    r"l4|l40s?|rtx40\d0(ti)?|rtx\d[05]00(sff)?ada|ada|adalovelace": ("sm_89",),
    r"h[12]00|gh200|hopper": ("sm_90a",),
    r"g?b200": ("sm_100a",),
    r"blackwell": ("sm_100a", "sm_120a"),
    r"g?b300": ("sm_103a",),
    r"t[45]000|(agx)?thor": ("sm_110a",),
    r"rtx50\d0(ti)?|rtxpro\d[05]00\w*": ("sm_120a",),
    r"gb10|(dgx)?spark": ("sm_121a",),
}
#: Words that may surround a product's name: the maker, the board, the memory.
_BESIDE = r"nvidia|geforce|tesla|jetson|quadro|generation|super|laptop|gpu|sxm\d?|pcie|nvl|\d+gb|hbm\d\w?|[\s_-]"
#: The PTX version that introduced each target: of a chip, of its "a" and of its "f".
_INTRODUCED = {
    70: ("6.0",), 72: ("6.1",), 75: ("6.3",), 80: ("7.0",), 86: ("7.1",), 87: ("7.4",), 89: ("7.8",),
    90: ("7.8", "8.0"), 100: ("8.6", "8.6", "8.8"), 103: ("8.8",) * 3, 107: ("9.4",) * 3, 110: ("9.0",) * 3,
    120: ("8.7", "8.7", "8.8"), 121: ("8.8",) * 3,
}  # fmt: skip
#: Former numbers of chips, by what CUDA 13 calls them, with the PTX versions of their targets as above.
_RENAMED = {"101": ("110", ("8.6", "8.6", "8.8"))}
_TOO_OLD = " It has no tensor cores: they came with sm_70, the V100."


@dataclass(frozen=True)
class Target:
    """One target: the chip's number and the suffix, "", "a" or "f".

    >>> chip = tcemu.instructions.target_named("sm_103a")
    >>> chip.number, chip.suffix, chip.family
    (103, 'a', 100)
    """

    number: int
    suffix: str = ""
    #: The number that its name has, if that is a former one: sm_101a is the chip that is now called sm_110a.
    former: str = field(default="", compare=False, repr=False)

    @property
    def ptx(self) -> str:
        """The PTX version that introduced the target.

        >>> [tcemu.instructions.target_named(name).ptx for name in ("sm_100a", "sm_100f", "sm_101a", "sm_110a")]
        ['8.6', '8.8', '8.6', '9.0']
        """
        versions = _RENAMED[self.former][1] if self.former else _INTRODUCED[self.number]
        return versions[("", "a", "f").index(self.suffix)]

    @property
    def family(self) -> int:
        """The first chip of the family that the chip belongs to."""
        return _FAMILIES[self.number]

    def __str__(self) -> str:
        return f"sm_{self.former or self.number}{self.suffix}"


#: One target of each generation of tensor cores.
GENERATIONS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
TARGETS: dict[str, Target] = Named(
    "target",
    {
        str(target): target
        for number in _FAMILIES
        for suffix, first in (("", 0), ("a", _FIRST_WITH_A), ("f", _FIRST_WITH_F))
        if number >= first
        for target in (Target(number, suffix),)
    },
)


def target_named(name: str) -> Target:
    """The target called `name`, or that of a GPU called so. Raises TargetError, which lists the accepted names.

    >>> tcemu.instructions.target_named("sm_90a")
    Target(number=90, suffix='a')
    >>> tcemu.instructions.target_named("H100")
    Target(number=90, suffix='a')
    >>> tcemu.instructions.target_named("blackwell")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tcemu.errors.TargetError: no target is called 'blackwell'. The target of blackwell is 'sm_100a' or 'sm_120a'. ...
    """
    if not isinstance(name, str):
        hint = meant(str(name)) if isinstance(name, (int, float)) else ""
        raise TargetError(f"a target must be a string, e.g. 'sm_90a'; got {briefly(name)}.{hint}")
    if name in TARGETS:
        return TARGETS[name]
    renamed = re.fullmatch(r"sm_([0-9]+)([af]?)", name)
    if renamed and renamed[1] in _RENAMED:
        return Target(int(_RENAMED[renamed[1]][0]), renamed[2], renamed[1])
    targets = product(name) or ()
    if len(targets) == 1:
        return TARGETS[targets[0]]
    raise TargetError(f"no target is called {shown(name)}.{meant(name)} The targets are {listing(TARGETS, 'and')}.")


@cache
def product(name: str) -> tuple[str, ...] | None:
    """The targets of a GPU or an architecture called by its name, in any spelling; None for any other name.

    >>> from tcemu.instructions.targets import product
    >>> product("NVIDIA A100-SXM4-80GB"), product("GTX 1080"), product("sm_90")
    (('sm_80',), (), None)
    """
    word = re.sub(_BESIDE, "", name[:80].lower())
    return next((targets for pattern, targets in _PRODUCTS.items() if re.fullmatch(pattern, word)), None)


def meant(name: str) -> str:
    """The target that a name in any spelling probably means, as a hint: a GPU, an architecture, or a number."""
    targets = product(name)
    if targets is not None:
        return f" The target of {name.strip()} is {listing(map(repr, targets))}." if targets else _TOO_OLD
    word = re.sub(_BESIDE, "", name[:80].lower())
    match = re.fullmatch(r"(?P<sm>[a-z]*?)(?P<number>[0-9]{1,2}\.?[0-9])(?P<suffix>[a-z]?)", word)
    if not match or (match["sm"] and not nearest(match["sm"], ("sm", "compute", "cc", "arch"), cutoff=0.6)):
        begun = [each for each in TARGETS if word[:-1] and each.replace("_", "").startswith(word)]
        return f" Did you mean {listing(map(repr, begun))}?" if 0 < len(begun) <= 4 else ""
    number = match["number"].replace(".", "")
    if number in _RENAMED:
        old, new = (f"sm_{each}{match['suffix']}" for each in (number, _RENAMED[number][0]))
        return f" CUDA 13 renamed {old} to {new!r}, the target of Thor."
    if int(number) < min(_FAMILIES):
        return _TOO_OLD
    wanted = [each for each in (f"sm_{number}{match['suffix']}", f"sm_{number}") if each in TARGETS][:1]
    wanted = wanted or [f"sm_{chip}" for chip in _FAMILIES if chip // 10 == int(number) // 10]
    return f" Did you mean {listing(map(repr, wanted))}?" if wanted else ""


@cache
def ptx_version(text: str) -> tuple[int, int]:
    """(8, 7) for "8.7". Raises TargetError for anything else."""
    match = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text)
    if not match:
        raise TargetError(f"{shown(text)} is not a PTX version: write it as in .version, e.g. '8.7'")
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class Gate:
    """What an instruction needs: a PTX version, and one of the targets in `since`.

    In `since`, "sm_80" means that chip and every later one; "sm_90a" that target only; "sm_100f" its family from that
    chip on, including the family's architecture-specific targets.

    >>> gate = tcemu.parse("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16").gate
    >>> gate.targets, gate.ptx
    ('sm_90a', '8.0')
    >>> gate.admits(tcemu.instructions.target_named("sm_100a")), gate.admits_ptx("8.7")
    (False, True)
    """

    ptx: str
    since: tuple[str, ...]

    def admits(self, target: Target) -> bool:
        """Whether the instruction exists on the target."""
        return any(_admits(target_named(name), target) for name in self.since)

    def admits_ptx(self, version: str) -> bool:
        """Whether the instruction exists in that PTX version."""
        return ptx_version(version) >= ptx_version(self.ptx)

    @property
    def targets(self) -> str:
        """The accepted targets in words."""
        return listing(_in_words(target_named(name)) for name in self.since)

    def __str__(self) -> str:
        return f"PTX {self.ptx}, {self.targets}"


def _admits(needed: Target, target: Target) -> bool:
    if needed.suffix == "":
        return target.number >= needed.number
    if needed.suffix == "a":
        return target == needed
    return target.suffix != "" and target.family == needed.family and target.number >= needed.number


def _in_words(target: Target) -> str:
    if target.suffix == "f":
        same = [str(each) for each in TARGETS.values() if each.suffix == "a" and _admits(target, each)]
        return f"{target} (also {listing(same, 'and')})"
    return str(target) if target.suffix else f"{target} or later"
