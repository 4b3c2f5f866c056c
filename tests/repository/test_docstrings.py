"""Every public function has an example in its docstring, and every example prints what it shows.

Examples may use np, tcemu and nothing else that they do not import. Those that need a GPU are marked +SKIP.
"""

import doctest
import functools
import importlib
import inspect
import pkgutil
from importlib.util import find_spec

import numpy as np
import pytest

import tcemu

ROOMS_OF_ONE_MODULE = ("tcemu.launcher", "tcemu.microscaling", "tcemu.sparse")
#: What launches a kernel of tcemu.gemm; the other functions there are parts of a kernel.
LAUNCHING = ("multiply", "attend")


@functools.cache
def modules():
    """Every module of tcemu that can be imported without optional dependencies."""
    names = ["tcemu", *(each.name for each in pkgutil.walk_packages(tcemu.__path__, "tcemu."))]
    left_out = ("tcemu.kernels", "tcemu.__main__", "tcemu.live.process.gpu", "tcemu.live.process.compiler")
    if not find_spec("jupyterhub"):
        left_out += ("tcemu.classroom.hub", "tcemu.classroom.service", "tcemu.classroom.spawner")
    return [importlib.import_module(name) for name in names if not name.startswith(left_out)]


def public():
    """The functions and classes in the packages' `__all__`, by their full name; errors need no example."""
    found = {}
    rooms = [module for module in modules() if hasattr(module, "__path__") or module.__name__ in ROOMS_OF_ONE_MODULE]
    for room in rooms:
        for name in room.__all__:
            each = getattr(room, name, None)
            callable_ = inspect.isfunction(each) or hasattr(each, "__wrapped__") or inspect.isclass(each)
            if callable_ and each.__module__.startswith("tcemu") and not is_error(each):
                found[f"{each.__module__}.{each.__qualname__}"] = each
    for kernel in tcemu.gemm.__all__:
        module = getattr(tcemu.gemm, kernel)
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in LAUNCHING if hasattr(module, name)}
    return found


def is_error(each):
    return inspect.isclass(each) and issubclass(each, Exception)


def methods(cls):
    """The public methods of a class, without its properties."""
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


def has_example(thing):
    return bool(doctest.DocTestParser().get_examples(thing.__doc__ or ""))


def test_every_public_function_has_an_example():
    lacking = [name for name, each in public().items() if not has_example(each)]
    assert not lacking


def test_every_public_method_has_an_example():
    """In its own docstring, or in that of its class, which calls it."""
    lacking = [
        f"{name}.{method}"
        for name, each in public().items()
        if inspect.isclass(each)
        for method, function in methods(each)
        if not has_example(function) and f".{method}(" not in (each.__doc__ or "")
    ]
    assert not lacking


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in modules():
        globs = {"np": np, "tcemu": tcemu}
        yield from (test for test in finder.find(module, module.__name__, module, globs) if test.examples)


@pytest.mark.slow
def test_every_example_gives_what_it_says(row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST)
    for example in examples():
        told = []
        with row(example.name):
            assert runner.run(example, out=told.append).failed == 0, "".join(told)


def test_what_is_skipped_says_what_it_needs():
    """A GPU, or one of the compilers that not everybody has."""
    for test in examples():
        if any(example.options.get(doctest.SKIP) for example in test.examples):
            assert test.name.startswith(("tcemu.live", "tcemu.cuda", "tcemu.gemm.twins"))
            assert any(word in test.docstring for word in ("GPU", "NVRTC", "nvcc", "Triton"))
