"""LLVM's text to the address of a function, and a cache on disk of what was compiled.

An entry belongs to a key that its owner makes, to this processor, and to the version of LLVM. Entries are written as a
whole, so that processes can share the folder; one that cannot be read is compiled again. Folders, the first that can
be written to: below the one that NUMBA_CACHE_DIR names, beside the kernels, or the user's. A folder that
TCEMU_KERNEL_CACHE names is only read.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as ll

_NAME = "ptx"
#: More entries than this are not kept: the oldest are removed.
_MOST = 1000
#: What the linker returned; it owns the code.
_LINKED: list[Any] = []


class NotCompiled(Exception):  # noqa: N818 - a bug of tcemu, which the caller reports
    """LLVM does not take the text, or the code needs a function that this process does not have."""


@cache
def _target() -> Any:
    ll.initialize_native_target()
    ll.initialize_native_asmprinter()
    return ll.Target.from_default_triple()


def _machine(level: int) -> Any:
    features = ll.get_host_cpu_features().flatten()
    return _target().create_target_machine(
        cpu=ll.get_host_cpu_name(), features=features, opt=level, reloc="pic", codemodel="default", jit=True
    )


@cache
def _linker() -> Any:
    """JITLink puts all parts of a library into one block; LLVM has none for Windows.

    The older linker maps each part where there is room: in a process with gigabytes of other memory, that may be more
    than 2 GiB from the code, and then an assertion of LLVM's ends the process.
    """
    _target()
    return ll.create_lljit_compiler(_machine(0), use_jit_link=sys.platform != "win32")


@cache
def _processor() -> str:
    """What compiled code depends on besides its text."""
    _target()
    features = ll.get_host_cpu_features().flatten()
    return "\n".join([llvmlite.__version__, str(ll.llvm_version_info), ll.get_host_cpu_name(), features])


def compiled(text: str, level: int = 0, passes: int = 0) -> bytes:
    """The object code of a module; `level` is that of the code generator, `passes` of what goes before it."""
    machine = _machine(level)
    try:
        module = ll.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise NotCompiled(str(error)) from None
    if passes:
        builder = ll.create_pass_builder(machine, ll.create_pipeline_tuning_options(speed_level=passes))
        builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def linked(code: bytes, name: str, symbols: Mapping[str, int]) -> int:
    """The address of a function in object code that calls others by these names."""
    builder = ll.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
    for symbol, address in symbols.items():
        builder.import_symbol(symbol, address)
    try:
        linked_module = builder.link(_linker(), f"{name}.{len(_LINKED)}")
    except RuntimeError as error:
        raise NotCompiled(str(error)) from None
    _LINKED.append(linked_module)
    where: int = linked_module[name]
    return where


def function(
    key: str, text: Callable[[], str], name: str, symbols: Mapping[str, int], level: int = 0, passes: int = 0
) -> int:
    """The address of a function: from the cache, by its key, or else compiled."""
    entry = hashlib.sha256(f"{key}\n{name}\n{level} {passes}\n{_processor()}".encode()).hexdigest()
    code = _stored(entry)
    if code is None:
        code = compiled(text(), level, passes)
        _store(entry, code)
    return linked(code, name, symbols)


# ---------------------------------------------------------------------------------------------------- on disk


def folders() -> list[Path]:
    """Where entries may be, the first one first."""
    chosen, beside = os.environ.get("NUMBA_CACHE_DIR"), Path(__file__).parents[1] / "__pycache__"
    home = Path(os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [Path(chosen) / _NAME] if chosen else [beside / _NAME, home / "tcemu" / _NAME]


def _stored(entry: str) -> bytes | None:
    """The object code of an entry, if it is there and whole."""
    only = os.environ.get("TCEMU_KERNEL_CACHE")
    for folder in [*([Path(only) / _NAME] if only else []), *folders()]:
        with suppress(OSError):
            held = (folder / entry).read_bytes()
            if hashlib.sha256(held[32:]).digest() == held[:32]:
                return held[32:]
    return None


def _store(entry: str, code: bytes) -> None:
    """Keep the object code of an entry in the first folder that takes it."""
    for folder in folders():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(hashlib.sha256(code).digest() + code)
            Path(file.name).replace(folder / entry)
            _trim(folder)
            return


def _trim(folder: Path) -> None:
    """Remove the oldest entries of a folder that holds too many."""
    entries = list(folder.iterdir())
    if len(entries) > _MOST:
        entries.sort(key=lambda each: each.stat().st_mtime)
        for each in entries[: len(entries) - _MOST + _MOST // 10]:
            with suppress(OSError):
                each.unlink()
