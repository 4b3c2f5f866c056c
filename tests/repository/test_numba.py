"""What the kernels use of numba beside its documented interface: if a release moves it, a test says what and where."""

import ast
import importlib
import inspect
from pathlib import Path

import numba
import pytest
from places import ROOT

KERNELS = ROOT / "tcemu" / "kernels"
#: What the cache of compiled kernels uses inside numba's own: an attribute of a class, or a parameter of a function.
INSIDE = {
    "numba.core.caching.FunctionCache": ["load_overload", "save_overload", "cache_path"],
    "numba.core.caching.IndexDataCacheFile": ["load", "save"],
    "numba.core.caching.UserProvidedCacheLocator": ["ensure_cache_path", "from_function"],
    "numba.core.dispatcher.Dispatcher": ["enable_caching", "compile", "signatures"],
}


def imported():
    """Yield each name that a kernel imports from inside numba or llvmlite, and the file that does."""
    for path in sorted(KERNELS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("numba", "llvmlite"):
                for alias in node.names:
                    yield node.module, alias.name, path.relative_to(ROOT)


def moved(what, where):
    """Say what to do about it."""
    return (
        f"numba {numba.__version__} no longer has {what}, which {where} uses. Mend that, or lower numba's "
        "upper bound in pyproject.toml"
    )


def test_what_the_kernels_import_from_numba_is_there():
    seen = set()
    for module, name, path in imported():
        seen.add(module)
        try:
            there = hasattr(importlib.import_module(module), name) or importlib.import_module(f"{module}.{name}")
        except ImportError:
            there = False
        if not there:
            pytest.fail(moved(f"{module}.{name}", path))
    assert "numba.core.caching" in seen


@pytest.mark.parametrize("name", INSIDE)
def test_what_the_cache_uses_inside_numba_is_there(name):
    module, _, of = name.rpartition(".")
    found = getattr(importlib.import_module(module), of)
    for each in INSIDE[name]:
        if each not in dir(found):
            pytest.fail(moved(f"{name}.{each}", Path("tcemu/kernels")))


def test_a_dispatcher_keeps_its_cache_where_the_kernels_put_theirs():
    """`dispatcher._cache` is not documented; `enable_caching` sets it."""
    source = inspect.getsource(numba.core.dispatcher.Dispatcher.enable_caching)
    if "self._cache =" not in source:
        pytest.fail(moved("Dispatcher._cache", Path("tcemu/kernels")))
