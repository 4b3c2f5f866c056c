"""``tcemu whose``: which recipe gave a matrix product its bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, is_zipfile

import click

from tcemu.errors import OperandError, TcemuError, listing

if TYPE_CHECKING:
    import numpy.typing as npt

    from tcemu.recipes import Verdict

    Array = npt.NDArray[Any]


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw an element's sums.")
@click.option("--code", metavar="LIBRARY", help="Print code for torch, jax, cupy or triton that makes FILE on a GPU.")
@click.option("--type", "kind", default="f32", show_default=True, help="The type of A and B in that code.")
@click.option("--scale", metavar="MODE", default="", help="Scales of fp8 in that code: tensor, row or block.")
def whose(file: Path | None, svg: Path | None, code: str | None, kind: str, scale: str) -> None:
    """Find out how D of FILE was computed from A and B: instruction, order of k, splits, roundings.

    FILE is an .npz file with the arrays A (M, K), B (K, N) and D (M, N), and perhaps C, alpha, beta, bias, scale_a,
    scale_b, scale_c and scale_d, in capitals or not. numpy does not store the names of bf16 and fp8: the file then also
    has "types", such as "bfloat16 bfloat16 float32" for A, B and D, and perhaps "c=bfloat16", and their bytes. `tcemu
    whose --code torch --type bf16` prints a program that writes such a file; `--type e4m3 --scale row` and `--type s8`
    print programs for products with scales and of integers.

    The exit code is 1 if no recipe gives all elements.
    """
    from tcemu.recipes import snippet

    if code is not None:
        click.echo(snippet(code, kind, scale), nl=False)
        return
    if file is None:
        raise TcemuError("tcemu whose takes a FILE, or --code with the name of a library")
    verdict = _verdict(_loaded(file))
    click.echo(str(verdict))
    if svg is not None:
        svg.write_text(verdict.picture().svg + "\n", encoding="utf-8")
        click.echo(f"Wrote {svg}.")
    if not verdict.exact:
        click.get_current_context().exit(1)


def _verdict(arrays: dict[str, Array]) -> Verdict:
    """The verdict on a file's product; of a probe, what its random part says, after the order that it shows."""
    from tcemu.recipes import order_of, whose_bits
    from tcemu.recipes.operands import matrix
    from tcemu.recipes.probe import unmarked

    a, b, d = arrays["a"], arrays["b"], arrays["d"]
    kind = matrix(a, "A")[1]
    numbers = {name: float(arrays[name]) for name in ("alpha", "beta", "scale_c", "scale_d") if name in arrays}
    others = {name: arrays[name] for name in ("bias", "scale_a", "scale_b") if name in arrays}
    c = arrays.get("c")
    if others or numbers:  # a probe shows its order only in plain sums
        return whose_bits(a, b, d, c, **numbers, **others)  # type: ignore[arg-type]
    order = order_of(a, b, d, kind)
    if order is not None:
        click.echo(str(order))
    rows, columns = unmarked(a, b, kind)
    if c is not None:
        c = c[rows][:, columns] if c.ndim == 2 else c[columns]
    return whose_bits(a[rows], b[:, columns], d[rows][:, columns], c)


def _loaded(file: Path) -> dict[str, Array]:
    """The arrays of a file with the types that it names. Raises TcemuError for any other file."""
    import numpy as np

    from tcemu.formats import FORMATS
    from tcemu.recipes.operands import TYPES

    if not is_zipfile(file):
        raise TcemuError(f"{file} is not an .npz file; numpy.savez(FILE, a=A, b=B, d=D) writes one")
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = _named({name: stored[name] for name in stored.files}, file)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise TcemuError(f"{file} is not an .npz file of arrays: {error}") from None
    missing = [name for name in "abd" if name not in arrays]
    if missing:
        raise OperandError(f"{file} has no {listing(missing, 'and')}; it has {listing(arrays, 'and') or 'no arrays'}")
    if "types" not in arrays:
        return arrays
    kinds = {str(FORMATS[name].dtype): FORMATS[name].dtype for name in TYPES}
    words = str(arrays.pop("types")).replace("torch.", "").split()
    named = [word for word in words if "=" in word]
    names = dict(zip("abd", [word for word in words if "=" not in word], strict=False))
    names |= {role.lower(): name for role, _, name in (word.partition("=") for word in named)}
    if len(words) - len(named) != 3 or not set(names.values()) <= set(kinds) or not set(names) <= set(arrays):
        raise OperandError(
            f"{file}: types must be three of {listing(kinds)}, for A, B and D, and perhaps others such as c=bfloat16; "
            f"got {' '.join(words)!r}"
        )
    for role, name in names.items():
        arrays[role] = np.ascontiguousarray(arrays[role]).view(kinds[name])
    return arrays


#: The arrays of a file.
_NAMES = ("a", "b", "d", "c", "alpha", "beta", "bias", "scale_a", "scale_b", "scale_c", "scale_d", "types")


def _named(arrays: dict[str, Array], file: Path) -> dict[str, Array]:
    """The arrays that count, by their names in small letters. Raises OperandError where two names mean the same."""
    by_name: dict[str, Array] = {}
    for key, array in arrays.items():
        name = key.lower()
        if name in by_name:
            twins = [each for each in arrays if each.lower() == name]
            raise OperandError(
                f"{file} has {listing(twins, 'and')}, and case does not count here: which is {name.upper()}? "
                "Save the file with one of them"
            )
        by_name[name] = array
    return by_name
