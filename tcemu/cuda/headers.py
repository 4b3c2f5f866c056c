"""Headers that NVRTC does not find by itself: those of the host's libraries, and the files beside a source.

What C's and C++'s libraries have for kernels is in include/, in files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: Headers for the host only: a kernel needs nothing of them, so they are empty.
_HOST = """
    any atomic cctype cerrno charconv chrono condition_variable coroutine cstdarg ctype.h cudaProfiler.h
    cuda_gl_interop.h cuda_profiler_api.h cufft.h cusolverDn.h cusparse.h cwchar deque dirent.h errno.h
    exception execution filesystem format forward_list fstream future getopt.h helper_cuda.h helper_functions.h
    helper_string.h helper_timer.h iomanip ios iosfwd iostream istream list locale map memory memory_resource mpi.h
    mutex nccl.h new nvToolsExt.h nvml.h nvrtc.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp omp.h ostream pthread.h queue
    random ranges regex scoped_allocator set shared_mutex signal.h source_location sstream stack stdarg.h stdexcept
    streambuf string string_view sys/stat.h sys/time.h sys/types.h system_error thread thrust/copy.h thrust/count.h
    thrust/device_malloc.h thrust/device_ptr.h thrust/device_vector.h thrust/execution_policy.h thrust/extrema.h
    thrust/fill.h thrust/for_each.h thrust/generate.h thrust/host_vector.h thrust/inner_product.h thrust/random.h
    thrust/reduce.h thrust/scan.h thrust/sequence.h thrust/sort.h thrust/transform.h thrust/transform_reduce.h
    thrust/unique.h thrust/universal_vector.h typeindex typeinfo unistd.h unordered_map unordered_set valarray
    vector wchar.h windows.h
"""
#: What the headers of NVIDIA's matrix libraries include, which kernels beside them rely on.
_NUMBERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
_LIBRARIES = ("cublas.h", "cublas_v2.h", "cublasLt.h", "cublasXt.h", "cudnn.h")
HOST: dict[str, str] = dict.fromkeys(_HOST.split(), "") | dict.fromkeys(_LIBRARIES, _NUMBERS)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def beside(source: str, folders: Iterable[Path]) -> dict[str, tuple[str, str]]:
    """The files that a source includes in quotes, and those that they include: path and text by the name in quotes.

    They are looked for beside the source and in `folders`; one that is not found is left to the compiler, and so
    are all if a name stands for different files in different folders.
    """
    found: dict[str, tuple[str, str]] = {}
    places = [Path(each) for each in folders]
    waiting = [(source, places)]
    while waiting:
        text, where = waiting.pop()
        for name in _INCLUDE.findall(text):
            path = next((each / name for each in where if (each / name).is_file()), None)
            if path is not None and name in found and found[name][0] != str(path):
                return {}  # one name, two files: NVRTC looks beside the file that includes it, and finds the right one
            if path is None or name in found:
                continue
            try:
                inner = path.read_text(encoding="utf-8-sig", errors="replace")
            except OSError:
                continue
            found[name] = str(path), inner
            waiting.append((inner, [path.parent, *places]))
    return found


def elsewhere(paths: Iterable[str], folders: Iterable[Path]) -> dict[str, tuple[str, str]]:
    """Those of some files that lie in the user's folders, as #include names them: path and text."""
    found: dict[str, tuple[str, str]] = {}
    for path in map(Path, paths):
        folder = next((each for each in folders if path.is_relative_to(each)), None)
        if folder is not None and path.is_file():
            inner = path.read_text(encoding="utf-8-sig", errors="replace")
            found[path.relative_to(folder).as_posix()] = str(path), inner
    return found
