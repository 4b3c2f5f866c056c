"""Measure how often a wrong answer is told what is wrong with it, on answers that nobody wrote for the purpose.

    .venv/bin/python tools/measure_diagnoses.py [--each 12] [--seed 1] [--show] [EXERCISE ...]

The solutions are changed at one place each, as a slip changes them: a constant, an operator, a variable, a term or a
statement left out, two values swapped. Changes that leave the answer right do not count. Of the others the tool
counts those

    named      told the mistake or a fact about it
    refused    told that it is no answer: an error, a wrong shape
    placed     told only where it is wrong first

and, of the named ones, checks what can be checked without reading them: that the arguments which the diagnosis names
are among those that the change concerns. --show prints every change and diagnosis for reading.

    .venv/bin/python tools/measure_diagnoses.py --answers FILE

measures answers that people gave instead, and prints each with its diagnosis, so that a reader can say whether it names
the mistake, another one or none. Before each answer in the file, a line says of which exercise it is and what is wrong:

    #### where_of_a | the row's half is forgotten
    def where_of_a(row, column):
        return 4 * (row % 8) + column % 8 // 2, column // 8 * 2
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from tcemu.course.lint import Case, cases
from tcemu.course.solutions import BEGIN, END
from tcemu.course.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent
#: Seconds that a changed solution may take.
LIMIT = 20

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.FloorDiv: ast.Mod, ast.Mod: ast.FloorDiv, ast.Mult: ast.FloorDiv, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitXor: ast.BitOr, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip

_REFUSED = re.compile(r" raises | returns |has the shape|has elements|does not finish|is called with")

#: A change: what it does in words, the nodes that it concerns, and the change itself.
Change = tuple[str, list[ast.AST], Callable[[], None]]


def changes(tree: ast.Module, lines: range) -> Iterator[Change]:
    """Every single change of a program in these lines; applying one changes `tree`."""
    names = sorted(arguments_of(tree))
    for parent in ast.walk(tree):
        for field, held in ast.iter_fields(parent):
            for index, node in enumerate(held if isinstance(held, list) else [held]):
                if isinstance(node, ast.AST) and getattr(node, "lineno", 0) in lines:
                    place = (parent, field, index if isinstance(held, list) else None)
                    yield from _of_node(node, place, names)


def arguments_of(tree: ast.Module) -> set[str]:
    """The names of all arguments."""
    return {argument.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for argument in node.args}


def _of_node(node: ast.AST, place: tuple[ast.AST, str, int | None], names: list[str]) -> Iterator[Change]:
    def put(new: ast.AST) -> Callable[[], None]:
        parent, field, index = place
        return lambda: setattr(parent, field, new) if index is None else getattr(parent, field).__setitem__(index, new)

    text = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            for new in {value + 1, value - 1, value * 2, value // 2} - {value}:
                yield f"{value} became {new}", [place[0]], put(ast.Constant(new))
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) in _OPERATORS:
                other = ast.BinOp(left, _OPERATORS[type(op)](), right)
                yield f"{text} became {ast.unparse(other)}", [node], put(other)
            yield f"{text} became {ast.unparse(left)}", [node], put(left)
            if isinstance(op, ast.Add):
                yield f"{text} became {ast.unparse(right)}", [node], put(right)
        case ast.Name(id=name, ctx=ast.Load()) if name in names:
            for new_name in names:
                if new_name != name:
                    yield f"{name} became {new_name}", [node, ast.Name(new_name)], put(ast.Name(new_name, ast.Load()))
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in _COMPARISONS:
            other_test = ast.Compare(left, [_COMPARISONS[type(op)]()], comparators)
            yield f"{text} became {ast.unparse(other_test)}", [node], put(other_test)
        case ast.Tuple(elts=[first, second, *rest], ctx=ast.Load()):
            yield f"{text} was swapped", [node], put(ast.Tuple([second, first, *rest], ast.Load()))
        case ast.Expr(value=ast.Call()):
            yield f"{text} was left out", [node], put(ast.Pass())


def concerned(tree: ast.Module, nodes: list[ast.AST]) -> set[str]:
    """The names on which the changed nodes depend, through assignments too."""
    found = {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    grown = 0
    while grown != len(found):
        grown = len(found)
        for node in assigned:
            targets = {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            if targets & found:
                found |= {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
    return found


def judge(case: Case, code: str) -> Verdict | str:
    """The verdict on changed code, or what its cell raises."""

    def late(_: int, __: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        return case.solution.verdict(code, "ada")
    except Exception as error:  # noqa: BLE001 - a changed program may do anything
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


def outcome(verdict: Verdict | str, names: set[str], arguments: set[str]) -> str:
    """How a changed solution fared."""
    if isinstance(verdict, str) or verdict.state == "open":
        return "refused"
    if verdict:
        return "right"
    if not verdict.mistake:
        return "refused" if _REFUSED.search(verdict.says) else "placed"
    told = {each for each in arguments - {"a"} if re.search(rf"\b{each}\b", verdict.mistake)}  # "a" is a word
    return "named" if not told or told & names else "named beside the point"


def measure(case: Case, each: int, rng: random.Random, show: bool) -> Counter[str]:
    """Change one solution at up to `each` places."""
    count: Counter[str] = Counter()
    tree = ast.parse(case.solution.code)
    marks = [number for number, line in enumerate(case.solution.code.splitlines(), 1) if BEGIN in line or END in line]
    lines = range(*marks)
    every = list(range(len(list(changes(tree, lines)))))
    rng.shuffle(every)
    arguments = arguments_of(tree)
    for number in every:
        if sum(count.values()) - count["right"] >= each:
            break
        changed = copy.deepcopy(tree)
        says, nodes, apply = list(changes(changed, lines))[number]
        names = concerned(changed, nodes)
        apply()
        verdict = judge(case, ast.unparse(ast.fix_missing_locations(changed)))
        count[outcome(verdict, names, arguments)] += 1
        if show:
            told = verdict if isinstance(verdict, str) else f"{verdict.mistake or '-'} [{verdict.says.splitlines()[0]}]"
            print(f"{case.exercise.name}: {says}\n    {outcome(verdict, names, arguments)}: {told}", flush=True)
    return count


def read(held: list[Case], path: Path) -> Counter[str]:
    """Print the diagnosis of each answer in a file, and count how they fared."""
    known = {case.exercise.name: case for case in held}
    count: Counter[str] = Counter()
    for answer in path.read_text(encoding="utf-8").split("#### ")[1:]:
        says, _, code = answer.partition("\n")
        verdict = judge(known[says.partition(" | ")[0]], code)
        count[outcome(verdict, set(), set())] += 1
        told = verdict if isinstance(verdict, str) else f"{verdict.mistake or '-'} [{verdict.says.splitlines()[0]}]"
        print(f"{says}\n    {told}", flush=True)
    return count


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=12, help="wrong answers for each exercise")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every change and its diagnosis")
    parser.add_argument("--answers", type=Path, help="a file of wrong answers to measure instead")
    parser.add_argument("exercises", nargs="*")
    given = parser.parse_args()
    if given.answers:
        print(dict(read(cases(ROOT), given.answers)))
        return
    kinds: dict[str, Counter[str]] = {}
    for case in cases(ROOT):
        if not given.exercises or case.exercise.name in given.exercises:
            rng = random.Random(f"{given.seed}/{case.exercise.name}")  # noqa: S311 - a sample
            found = measure(case, given.each, rng, given.show)
            kinds.setdefault(type(case.exercise.judge).__name__, Counter()).update(found)
    columns = ("named", "named beside the point", "refused", "placed")
    total = sum(kinds.values(), Counter())
    print(f"{'judge':12}{'wrong answers':>15}" + "".join(f"{name:>25}" for name in columns))
    for kind, count in [*sorted(kinds.items()), ("all", total)]:
        wrong = sum(count[name] for name in columns)
        shares = "".join(f"{count[name]:>18} ({count[name] / max(wrong, 1):3.0%})" for name in columns)
        print(f"{kind:12}{wrong:>15}{shares}")


if __name__ == "__main__":
    main()
