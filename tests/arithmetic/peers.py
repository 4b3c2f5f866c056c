"""Other models of tensor cores, asked for the same dot products: witnesses that share no line with the package.

    python tests/arithmetic/peers.py mmasim             compare every instruction both have; exit 1 on a difference
    python tests/arithmetic/peers.py mmasim --record    and write the peer's answers to tests/arithmetic/peers/
    python tests/arithmetic/peers.py octave --models FOLDER     the models/ folder of MATLAB-tensor-core; needs octave

Nothing of a peer is in the repository but what it answers: a hash for each instruction and class of inputs, which
test_peers.py replays where the peer is not installed.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import numpy as np
from dots import KINDS, compute_dots, dots

import tcemu
from tcemu.arithmetic.ieee import CANONICAL_NAN
from tcemu.instructions import target_named

RECORDED = Path(__file__).parent / "peers"
#: Dot products of each instruction and class.
COUNT = 512


#: By MMA-Sim's names of architectures.
TARGETS = {
    "Volta": "sm_70", "Turing": "sm_75", "Ampere": "sm_80", "Ada Lovelace": "sm_89", "Hopper": "sm_90a",
    "Blackwell": "sm_100a", "RTX Blackwell": "sm_120a",
}  # fmt: skip


class Peer:
    """What all peers have in common."""

    @staticmethod
    def kinds(_instruction):
        """The classes that it is asked."""
        return KINDS

    @staticmethod
    def asked(_instruction, given):
        """Those of the dot products that it is asked: all."""
        return given

    @staticmethod
    def told(_instruction, patterns):
        """What of an answer counts: all of it."""
        return patterns


class MmaSim(Peer):
    """MMA-Sim (Microsoft): mma, block-scaled mma and wgmma of seven architectures. PyPI: mmasim."""

    package = "mmasim"
    about = "MMA-Sim, https://github.com/microsoft/MMA-Sim, arXiv 2511.10909, MIT licence"
    packages = ("torch",)

    def cases(self):
        """(target, instruction, what asks the peer) of all that both have; of wgmma only n8, as N changes no result."""
        from mmasim.nv_ptx import MMA, WGMMA, MMABlockScale, isa_mma, isa_wgmma

        for arch, names in isa_mma.mma_shape_and_type.items():
            for name in names:
                shape, _, types = name.partition(".")
                yield TARGETS[arch], f"mma.sync.aligned.{shape}.row.col.{types}", MMA(arch, name)
        for arch, names in isa_mma.mma_block_scale_shape_and_type.items():
            for name in names:
                shape, kind, block, *types = name.split(".")
                vector = (64 if shape.endswith("k64") else 32) // int(block.removeprefix("block"))
                kinds = f"{kind}.block_scale.scale_vec::{vector}X"
                opcode = f"mma.sync.aligned.{shape}.row.col.{kinds}.{'.'.join(types)}"
                yield TARGETS[arch], opcode, MMABlockScale(arch, name)
        for arch, names in isa_wgmma.wgmma_shape_and_type.items():
            for name in names:
                if "n8k" in name:
                    yield TARGETS[arch], f"wgmma.mma_async.sync.aligned.{name}", WGMMA(arch, name)

    @staticmethod
    def told(_instruction, patterns):
        """One NaN stands for every NaN of f64, because its payload comes from the processor that runs the peer."""
        if patterns.dtype != np.uint64:
            return patterns
        return np.where(np.isnan(patterns.view(np.float64)), np.uint64(0x7FF8 << 48), patterns)

    def answer(self, asked, instruction, a, b, c, *scales):
        """The peer's patterns (count)."""
        import torch

        given = [
            self._tensor(torch, instruction.types[role].name, x, packed=bool(scales) and instruction.shape.k == 64)
            for role, x in (("a", a), ("b", b), ("c", c))
        ]
        given += [self._tensor(torch, instruction.words["stype"], x) for x in scales]
        answered = asked.dpa(*given).numpy()
        return answered.view(f"u{answered.itemsize}")

    @staticmethod
    def _tensor(torch, name, patterns, packed=False):
        """Patterns as a tensor; two e2m1 share a byte if `packed`, otherwise each is in bits 5:2 of its own."""
        views = {
            "f64": torch.float64, "f32": torch.float32, "tf32": torch.float32, "f16": torch.float16,
            "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "ue4m3": torch.float8_e4m3fn,
            "e5m2": torch.float8_e5m2, "ue8m0": torch.float8_e8m0fnu,
        }  # fmt: skip
        if packed and name == "e2m1":
            patterns = patterns[..., ::2] << 4 | patterns[..., 1::2]
        elif name == "e2m1":
            patterns = patterns << 2
        held = torch.from_numpy(np.ascontiguousarray(patterns).view(f"u{patterns.itemsize}").copy())
        return held if name not in views else held.view(views[name])


class MmaEmu(Peer):
    """mmaemu: the fp8 units of Ada (compared with an RTX 4060) and Hopper's wgmma (an H100). PyPI: mmaemu."""

    package = "mmaemu"
    about = "mmaemu, https://github.com/astding/mmaemu, Apache 2.0 licence"
    packages = ("torch",)

    def cases(self):
        """(target, instruction, the peer's preset)."""
        for a in ("e4m3", "e5m2"):
            for b in ("e4m3", "e5m2"):
                for k in (16, 32):
                    yield "sm_89", f"mma.sync.aligned.m16n8k{k}.row.col.f32.{a}.{b}.f32", "ada"
                yield "sm_90a", f"wgmma.mma_async.sync.aligned.m64n8k32.f32.{a}.{b}", "hopper"

    def answer(self, asked, instruction, a, b, c):
        """The peer's patterns (count)."""
        import torch
        from mmaemu.model import dot

        kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
        left, right = (
            torch.from_numpy(x.copy()).view(kinds[instruction.types[role].name]) for role, x in (("a", a), ("b", b))
        )
        addend = torch.from_numpy(c.view(np.float32).copy())
        return dot(left, right, addend, preset=asked).numpy().view(np.uint32)


class Octave(Peer):
    """MATLAB-tensor-core (Khattak and Mikaitis), run by GNU Octave; not a package: `models` is its folder.

    It gives -0 where a negative sum rounds to zero; silicon gives +0 (SETTLED in test_arithmetic.py), so the sign of a
    zero is not compared. It is asked for single sums: one that overflows inside a chain leaves it with nonsense. Nor is
    it asked for f16 results of fp8, where it does not give what its authors publish of an RTX 1000 Ada.
    """

    package = "octave"
    about = "MATLAB-tensor-core, https://github.com/north-numerical-computing/MATLAB-tensor-core, BSD 2-clause licence"
    packages = ()
    models = Path()
    types: ClassVar = {
        "f16": "binary16", "bf16": "bfloat16", "tf32": "tf32", "e4m3": "fp8-e4m3", "e5m2": "fp8-e5m2", "f32": "binary32"
    }  # fmt: skip
    #: Function and target; fp8 of Hopper is that of wgmma.
    chips: ClassVar = (
        ("V100TC", "sm_70"), ("A100TC", "sm_80"), ("AdaTC", "sm_89"), ("H100TC", "sm_90a"), ("B200TC", "sm_100a"),
        ("RTXPRO6000TC", "sm_120a"),
    )  # fmt: skip

    def cases(self):
        """(target, instruction, (function, types of its arguments))."""
        mma, wgmma = "mma.sync.aligned.{0}.row.col.{2}.{1}.{1}.{2}", "wgmma.mma_async.sync.aligned.{0}.{2}.{1}.{1}"
        for function, target in self.chips:
            if function == "V100TC":
                asked = [(mma, "m8n8k4", "f16", "f32"), (mma, "m8n8k4", "f16", "f16")]
            else:
                k = 8 if target in ("sm_80", "sm_86", "sm_89") else 16
                asked = [(mma, f"m16n8k{k}", a, d) for a, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"))]
                asked += [(mma, f"m16n8k{k // 2}", "tf32", "f32")]
            if target == "sm_89":
                asked += [(mma, "m16n8k16", a, "f32") for a in ("e4m3", "e5m2")]
            if target == "sm_90a":
                asked += [(wgmma, "m64n8k32", a, "f32") for a in ("e4m3", "e5m2")]
            for template, shape, a, d in asked:
                yield target, template.format(shape, a, d), (function, self.types[a], self.types[d])

    def answer(self, asked, instruction, a, b, c):
        """The peer's patterns (count)."""
        function, given, result = asked
        types, words = instruction.types, "" if function == "V100TC" else f"'{given}',"
        with tempfile.TemporaryDirectory() as folder:
            for role, x in (("a", a), ("b", b), ("c", c)):
                types[role].decode(x).astype(np.float64).tofile(Path(folder, role))
            script = f"""
                warning('off', 'all'); addpath('{self.models}', '{self.models}/tools');
                f = fopen('{folder}/a'); a = fread(f, [{a.shape[1]}, Inf], 'double'); fclose(f);
                f = fopen('{folder}/b'); b = fread(f, [{a.shape[1]}, Inf], 'double'); fclose(f);
                f = fopen('{folder}/c'); c = fread(f, [1, Inf], 'double'); fclose(f);
                d = zeros(1, columns(a));
                for i = 1:columns(a)
                    d(i) = {function}(1, a(:, i)', b(:, i), 1, c(i), {words} '{result}');
                end
                f = fopen('{folder}/d', 'w'); fwrite(f, d, 'double'); fclose(f);
            """
            Path(folder, "ask.m").write_text(script, encoding="utf-8")
            # its status is no use: Octave 7 stumbles while it ends, after everything is written
            command = ["octave-cli", "--quiet", f"{folder}/ask.m"]
            told = subprocess.run(command, check=False, capture_output=True, text=True)
            if not Path(folder, "d").exists():
                raise RuntimeError(told.stderr)
            d = np.fromfile(Path(folder, "d"))
        form = types["d"]
        patterns = form.encode(np.where(np.isnan(d), 0.0, d)).astype(form.storage)
        patterns[np.isnan(d)] = CANONICAL_NAN[form.name]
        return patterns

    @staticmethod
    def kinds(instruction):
        """Not tiny bf16 and tf32, far below the smallest result: it ends with an error there."""
        return [kind for kind in KINDS if kind != "tiny" or instruction.types["a"].exponent < 8]

    @staticmethod
    def asked(_instruction, given):
        """Not those with a subnormal f16 addend: it normalises that, and an H200 does not."""
        c = given[2]
        plain = np.ones(len(c), bool) if c.dtype != np.uint16 else (c & 0x7FFF == 0) | (c & 0x7C00 > 0)
        return tuple(x[plain] for x in given)

    @staticmethod
    def told(instruction, patterns):
        """Zeros are one."""
        return np.where(patterns == instruction.types["d"].sign_bit, patterns.dtype.type(0), patterns)


PEERS = {peer.package: peer for peer in (MmaSim(), MmaEmu(), Octave())}


def digest(patterns):
    """64 bits of the SHA-256 of patterns as little-endian words."""
    return hashlib.sha256(patterns.astype(patterns.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16]


def differences(peer, series, count):
    """(case, class, inputs, the peer's patterns, the package's) for every instruction that both have."""
    for target, opcode, asked in peer.cases():
        instruction = tcemu.parse(opcode, target=target)
        operation = instruction.operation(target_named(target))
        kinds = peer.kinds(instruction)
        every = {kind: peer.asked(instruction, dots(instruction, kind, series, count)) for kind in kinds}
        # all classes in one question: a peer may take its time to start
        given = [np.concatenate(parts) for parts in zip(*every.values(), strict=True)]
        ends = np.cumsum([len(each[2]) for each in every.values()])[:-1]
        answers = peer.answer(asked, instruction, *given), compute_dots(operation, *given)
        answered, ours = (np.split(peer.told(instruction, each), ends) for each in answers)
        for kind, theirs, own in zip(every, answered, ours, strict=True):
            yield f"{target}|{opcode}", kind, every[kind], theirs, own


def version_of(peer):
    """The version of a peer: of its package, or for Octave the commit that --version gives."""
    try:
        return version(peer.package)
    except PackageNotFoundError:
        return ""


def main():
    """Compare, and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--record", action="store_true", help=f"write the answers to {RECORDED.name}/")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--series", default="recorded", help="any word; another one gives other inputs")
    parser.add_argument("--models", type=Path, help="octave: the folder models/ of MATLAB-tensor-core")
    parser.add_argument("--commit", default="", help="octave: the commit of that folder")
    chosen = parser.parse_args()
    peer, answers, wrong, outputs = PEERS[chosen.peer], {}, 0, 0
    if chosen.models:
        Octave.models = chosen.models.resolve()
    number = version_of(peer) or chosen.commit
    for case, kind, given, answered, ours in differences(peer, chosen.series, chosen.count):
        answers.setdefault(case, {})[kind] = digest(answered)
        outputs += answered.size
        differ = np.flatnonzero(answered != ours)
        wrong += differ.size
        if differ.size:
            first = differ[0]
            shown = " ".join(str([hex(p) for p in np.atleast_1d(x[first])]) for x in given)
            print(f"{case} {kind}: {differ.size} differ; {shown}: {answered[first]:#x}, here {ours[first]:#x}")
    print(f"{peer.package} {number}: {len(answers)} instructions, {outputs:,} outputs, {wrong:,} differ")
    if chosen.record:
        provenance = {"about": peer.about, "version": number, "series": chosen.series, "count": chosen.count}
        provenance["packages"] = {name: version(name) for name in ("numpy", *peer.packages)}
        path = RECORDED / f"{peer.package}-{number}.json"
        path.write_text(json.dumps({"provenance": provenance, "answers": answers}, indent=1) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
