"""One test for a whole table, for which a test per row would cost more than its checks."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def rows(names: str, table: Iterable[Any], ids: Callable[..., str] = lambda *row: " ".join(map(str, row))) -> Any:
    """Like pytest.mark.parametrize, but one test that asks every row and reports by its name each row that fails.

    `names` are the parameters that come from the table; what else the test takes are fixtures and parameters as usual.
    """
    wanted, every = names.replace(",", " ").split(), list(table)

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def test(row: Any, **given: Any) -> None:
            __tracebackhide__ = True
            for held in every:
                values = held if len(wanted) > 1 else (held,)
                with row(ids(*values)):
                    check(**dict(zip(wanted, values, strict=True)), **given)

        others = [name for name in inspect.signature(check).parameters if name not in wanted]
        own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("row", *others)]
        test.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        return test

    return decorate
