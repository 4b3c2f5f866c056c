"""What importing tcemu costs, and what kernels may import."""

import ast
import importlib.util
import itertools
import json
import pkgutil
import re
import rlcompleter
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from rows import rows

import tcemu

PACKAGE = Path(tcemu.__file__).parent
#: The rooms that hold compiled code.
ROOMS = "kernels", "native"
HEAVY = ["numba", "llvmlite", "ml_dtypes", "ipywidgets", "IPython", "matplotlib", "jupyterlab"]


def loaded_after(statements):
    """Return those of HEAVY that a new process has loaded after running `statements`."""
    probe = f"{statements}; import json, sys; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_tcemu_loads_nothing_heavy():
    assert loaded_after("import tcemu") == []


#: A kernel that runs on the machine, with the sanitizer; then a picture, and a command, that need the extra `course`.
EMULATOR = """
import sys
for name in {absent}:
    sys.modules[name] = None
import numpy as np
import tcemu
from tcemu.show.explorers.numbers import bits_of_a_number

def double(warp, x):
    at = x.at(warp.laneid)
    warp.st_global(at, 2 * warp.ld_global(at))

x = np.arange(32, dtype=np.uint32)
result = tcemu.launch(double, args=(x,), sanitizer="collect")
print(x.tolist() == list(range(0, 64, 2)), result.reports)
for ask in (
    lambda: bits_of_a_number()._repr_mimebundle_(),
    lambda: tcemu.extras.require("course", "tcemu lab", "jupyterlab"),
):
    try:
        ask()
    except ImportError as error:
        print(type(error).__name__, "extra `course` installs" in str(error), '-e ".[course]"' in str(error))
from tcemu.cli import main
sys.argv = ["tcemu", "isa", "mma.sync"]
main()
"""


@pytest.mark.slow
def test_the_emulator_runs_without_the_packages_of_the_course():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    imported = metadata.packages_distributions()  # the names that are imported, with what installs them
    asked = [*project["optional-dependencies"]["course"], *project["optional-dependencies"]["grade"]]
    distributions = {re.split(r"[^\w-]", each)[0].lower() for each in asked}
    absent = sorted(name for name, from_ in imported.items() if {each.lower() for each in from_} & distributions)
    assert {"jupyterlab", "IPython", "anywidget", "nbformat"} <= set(absent)
    done = subprocess.run(
        [sys.executable, "-c", EMULATOR.format(absent=absent)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == ["True []", "MissingPackage True True", "MissingPackage True True"]


def modules_after(statements):
    """Return the modules of tcemu that a new process has loaded after running `statements`."""
    probe = f"{statements}; import sys; print(*[name for name in sys.modules if name.startswith('tcemu.')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_room_is_loaded_when_one_of_its_names_is_used():
    assert modules_after("import tcemu") == {"tcemu.version"}
    assert modules_after("import tcemu; tcemu.TcemuError") == {"tcemu.version", "tcemu.errors"}
    running = modules_after("import tcemu; tcemu.run")
    assert "tcemu.instructions.run" in running
    assert not {"tcemu.machine", "tcemu.sanitizer", "tcemu.timing", "tcemu.show"} & running


@pytest.mark.slow
def test_what_observers_and_readers_of_reports_name_is_there():
    names = ["machine.events", "machine.tensor_map.TensorMap", "sanitizer.RULES", "formats.lookup", "layouts.Layout"]
    names += ["Warp"]
    for first in names:
        modules_after(f"import tcemu; {'; '.join(f'tcemu.{name}' for name in [first, *names])}")


def test_what_a_type_checker_reads_is_what_runs():
    """The names imported for type checkers are the public ones, each from the package that defines it."""
    (block,) = [node for node in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(node, ast.If)]
    read = {alias.name: node.module for node in block.body for alias in node.names}
    assert {*read, "__version__"} == set(tcemu.__all__)
    for name, module in read.items():
        if module != "tcemu":
            assert getattr(tcemu, name) is getattr(importlib.import_module(module), name)


def test_every_room_is_an_attribute_of_tcemu():
    """In an order in which none imports a later one."""
    rooms = ["sparse", "microscaling", "wmma", "show", "live"]
    ask = "print('tcemu.{0}' in sys.modules, tcemu.{0} is sys.modules['tcemu.{0}'])"
    probe = "\n".join(["import sys, tcemu", *(ask.format(room) for room in rooms)])
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False True"] * len(rooms)


def test_completion_offers_the_public_names_and_no_machinery():
    offered = dir(tcemu)
    rooms = {"gemm", "live", "microscaling", "show", "sparse", "wmma", "formats", "layouts", "machine", "sanitizer"}
    rooms |= {"course"}  # START: tcemu.course.overview()
    assert rooms <= set(offered)
    assert {"run", "parse", "matmul", "launch", "wavefronts"} <= set(offered)
    assert all(hasattr(tcemu, name) for name in offered)
    strangers = {name for name in vars(tcemu) if not name.startswith("_")} - {*offered, "TYPE_CHECKING"}
    assert strangers <= {path.stem for path in PACKAGE.iterdir()}, "what is not offered is a module of the package"


def packages():
    """The names of tcemu and of every package in it."""
    inside = (module.name for module in pkgutil.walk_packages(tcemu.__path__, "tcemu.") if module.ispkg)
    return ["tcemu", *inside]


@pytest.mark.parametrize("package", packages())
def test_every_package_says_what_is_public_in_it(package):
    module = importlib.import_module(package)
    assert module.__all__ == sorted(set(module.__all__), key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in module.__all__:
        assert hasattr(module, name) or importlib.util.find_spec(f"{package}.{name}")


@pytest.mark.parametrize("room", ["errors", "launcher", "microscaling", "sparse"])
def test_a_room_of_one_module_says_so_too(room):
    module = importlib.import_module(f"tcemu.{room}")
    assert all(hasattr(module, name) for name in module.__all__)


def test_both_completers_offer_the_rooms():
    """Python's own completion and IPython's, which Jupyter uses."""
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    wanted = {"gemm", "live", "microscaling", "show", "sparse", "wmma", "formats", "layouts", "run", "parse"}
    plain = rlcompleter.Completer({"tcemu": tcemu})
    found = itertools.takewhile(bool, (plain.complete("tcemu.", number) for number in itertools.count()))
    assert (
        {name.removeprefix("tcemu.").rstrip("()") for name in found}
        == {name for name in dir(tcemu) if not name.startswith("_")}
        >= wanted
    )
    shell = InteractiveShell()
    shell.user_ns["tcemu"] = tcemu
    shell.init_completer()
    with provisionalcompleter():
        offered = {each.text.lstrip(".") for each in shell.Completer.completions("tcemu.", 6)}
    assert wanted <= offered
    assert not offered & {"import_module", "TYPE_CHECKING", "annotations"}


@pytest.mark.slow
def test_a_notebook_completes_what_a_learner_types(row):
    """Jupyter asks jedi, which does not execute what it does not know: it reads annotations."""
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.user_ns |= {
        "tcemu": tcemu,
        "mma": tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    }
    shell.init_completer()
    for typed, wanted in (
        ("def kernel(warp: tcemu.Warp):\n    warp.", {"ld_shared", "bar_sync", "laneid", "run", "wgmma_fence"}),
        ("from tcemu import Warp\ndef kernel(warp: Warp):\n    warp.mbarrier_", {"mbarrier_init", "mbarrier_wait"}),
        ('mma.fragments["a"].', {"pack", "unpack", "holders", "layout"}),
        ('mma.types["a"].', {"encode", "decode"}),
        ("tcemu.course.", {"overview", "check"}),
    ):
        with row(typed), provisionalcompleter():
            offered = {each.text for each in shell.Completer.completions(typed, len(typed))}
            assert wanted <= {name.rpartition(".")[2] for name in offered}


def test_what_tcemu_lacks_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tcemu' has no attribute 'wma'"):
        tcemu.wma  # noqa: B018


def test_the_probe_sees_what_is_loaded():
    names = {"numba", "ml_dtypes", "ipywidgets"}
    assert set(loaded_after(f"import tcemu, {', '.join(names)}")) >= names


def imported(source):
    """Return the names of the modules that Python source imports anywhere, relative imports as a dot."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {"." if node.level else node.module for node in nodes if isinstance(node, ast.ImportFrom)}


def strangers(source):
    """Return the forbidden imports of a file of tcemu.kernels."""
    allowed = {"numpy", "numba", "llvmlite", "filelock", *sys.stdlib_module_names}  # llvmlite is numba's compiler
    return {
        name
        for name in imported(source) - {"."}
        if name.split(".")[0] not in allowed and not f"{name}.".startswith(("tcemu.kernels.", "tcemu.native."))
    }


@rows("path", sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")), ids=str)
def test_kernels_import_numpy_and_numba_only(path):
    assert strangers(path.read_text(encoding="utf-8")) == set()


def test_only_emit_makes_llvm():
    """And one module turns its text into code."""
    makes = {
        path.relative_to(PACKAGE)
        for room in ROOMS
        for path in (PACKAGE / room).rglob("*.py")
        if "llvmlite" in imported(path.read_text(encoding="utf-8"))
    }
    assert {str(path) for path in makes if path.parts[1] != "emit"} == {"native/compiled.py"}


def test_a_stranger_among_the_imports_of_a_kernel_is_seen():
    assert strangers("import numpy as np, os.path\nfrom tcemu.kernels.exact import dot\nfrom . import sums") == set()
    assert strangers("from tcemu import formats") == {"tcemu"}
    assert strangers("def later():\n    import ml_dtypes") == {"ml_dtypes"}
