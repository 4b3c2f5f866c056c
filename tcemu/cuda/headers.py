"""Headers that NVRTC does not find on its own: those of the host's libraries, and the files beside a source.

What C's and C++'s libraries have for kernels is in include/, in files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

#: Headers for the host only: a kernel needs nothing of them, so they are empty.
_HOST = """
    GL/freeglut.h GL/gl.h GL/glew.h GL/glut.h GLFW/glfw3.h any atomic barrier benchmark/benchmark.h cctype cerrno
    cfenv channel_descriptor.h charconv chrono clocale codecvt condition_variable conio.h coroutine csetjmp csignal
    cstdarg ctype.h cublas_api.h cuchar cudaD3D9.h cudaProfiler.h cuda_gl_interop.h cuda_profiler_api.h
    cuda_texture_types.h cufile.h cupti.h cusolverDn.h cusolverSp.h cusolver_common.h cusparse.h
    cusparse_v2.h cutensor.h cwchar cwctype deque device_functions.h direct.h dirent.h dlfcn.h drvapi_error_string.h
    emmintrin.h errno.h exception execution fcntl.h fenv.h filesystem flat_map flat_set format forward_list fstream
    future generator getopt.h gtest/gtest.h helper_cuda.h helper_cuda_drvapi.h helper_functions.h helper_gl.h
    helper_image.h helper_multiprocess.h helper_string.h helper_timer.h immintrin.h intrin.h io.h iomanip ios iosfwd
    iostream istream latch list locale locale.h malloc.h map memory memory.h memory_resource mpi.h mutex nccl.h new
    npp.h nppi.h nvToolsExt.h nvjpeg.h nvml.h nvrtc.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp omp.h ostream print
    process.h pthread.h queue random ranges regex rendercheck_gl.h sched.h scoped_allocator semaphore set setjmp.h
    shared_mutex signal.h source_location spanstream sstream stack stdarg.h stdexcept stop_token streambuf string
    string_view strings.h surface_functions.h syncstream sys/mman.h sys/resource.h sys/socket.h sys/stat.h
    sys/time.h sys/timeb.h sys/types.h sys/wait.h system_error texture_fetch_functions.h thread
    thrust/system/cuda/execution_policy.h thrust/system/cuda/vector.h typeindex typeinfo uchar.h unistd.h
    unordered_map unordered_set valarray values.h vector version wchar.h wctype.h windows.h x86intrin.h xmmintrin.h
"""
#: Algorithms and containers of Thrust and CUB that launch kernels: thrust/NAME.h and cub/device/device_NAME.cuh.
_THRUST = """
    adjacent_difference allocate_unique binary_search copy count device_allocator device_delete device_free
    device_make_unique device_malloc device_malloc_allocator device_new device_new_allocator device_ptr
    device_reference device_vector equal execution_policy extrema fill find for_each gather generate host_vector
    inner_product logical memory merge mismatch partition per_device_resource random reduce remove replace reverse
    scan scatter sequence set_operations shuffle sort system_error tabulate transform transform_reduce
    transform_scan uninitialized_copy uninitialized_fill unique universal_allocator universal_ptr universal_vector
"""
_CUB = """
    adjacent_difference copy find for histogram memcpy merge merge_sort partition radix_sort reduce
    run_length_encode scan segmented_radix_sort segmented_reduce segmented_scan segmented_sort select topk transform
"""
#: What the headers of NVIDIA's matrix libraries include, which kernels beside them rely on.
_NUMBERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
#: The types of cuFFT, which kernels between two transforms take.
_TRANSFORMS = """#include <cuComplex.h>
using cufftReal = float;
using cufftDoubleReal = double;
using cufftComplex = cuComplex;
using cufftDoubleComplex = cuDoubleComplex;
"""
_LIBRARIES = ("cublas.h", "cublas_v2.h", "cublasLt.h", "cublasXt.h", "cudnn.h")
_LAUNCHING = (
    *(f"thrust/{each}.h" for each in _THRUST.split()),
    *(f"cub/device/device_{each}.cuh" for each in _CUB.split()),
)
HOST: dict[str, str] = (
    dict.fromkeys((*_HOST.split(), *_LAUNCHING), "")
    | dict.fromkeys(_LIBRARIES, _NUMBERS)
    | dict.fromkeys(("cufft.h", "cufftXt.h"), _TRANSFORMS)
)
#: Headers of PyTorch and other libraries of the host, whose names nobody can list, and what kernels in an extension
#: need of them.
_TORCH = re.compile(r"(torch|ATen|THC|c10|caffe2|pybind11|tvm|dlpack|absl|fmt|spdlog|glog|gflags|nlohmann)/|Python\.h$")
TORCH = "#include <tcemu_torch.h>\n"
_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


def for_host(header: str) -> bool:
    """Whether a header that is not there belongs to a library that has nothing but host code for a kernel."""
    return bool(_TORCH.match(header))


def hosts(texts: Iterable[str], folders: Iterable[Path]) -> dict[str, str]:
    """What stands in the place of headers for the host that the texts include and that lie in none of the folders."""
    places = list(folders)
    found = (match[2] or match[3] for text in texts for match in _INCLUDE.finditer(text))
    return {each: TORCH for each in found if for_host(each) and not any((place / each).is_file() for place in places)}


def beside(source: str, folders: Iterable[Path], angles: bool = False) -> tuple[str, dict[str, tuple[str, str]]]:
    """The source, and the files that it and they include in quotes: path and text, by the name that includes them.

    They are looked for beside the file that includes them and in `folders`, with `angles` also those in <>; one that
    is not found is left to the compiler. A file has one name, whatever others call it, and a name one file: other
    words in an #include are replaced, because NVRTC knows files that are not on its disk by their names alone.
    """
    places = [Path(each) for each in folders]
    named: dict[str, str] = {}  # by path
    files: dict[str, tuple[str, str]] = {}
    waiting: list[tuple[str, str, str, list[Path]]] = []

    def included(text: str, where: list[Path]) -> str:
        def named_once(match: re.Match[str]) -> str:
            quoted, angled = match[2], match[3]
            if angled is not None and not angles:
                return match[0]
            name = quoted or angled
            path = next((each / name for each in (where if quoted else places) if (each / name).is_file()), None)
            if path is None:
                return match[0]
            full = os.path.abspath(path)  # noqa: PTH100 - without "..", but links stay as they are
            if full not in named:
                try:
                    inner = path.read_text(encoding="utf-8-sig", errors="replace")
                except OSError:
                    return match[0]
                named[full] = _free(name, full, named.values())
                waiting.append((named[full], full, inner, [Path(full).parent, *places]))
            return match[0] if named[full] == name else f'{match[1]}"{named[full]}"'

        return _INCLUDE.sub(named_once, text)

    own = included(source, places)
    while waiting:
        name, full, inner, where = waiting.pop()
        files[name] = full, included(inner, where)
    return own, files


def near(header: str, folder: Path | None) -> Path | None:
    """A folder near a source in which a header lies that was not found."""
    if folder is None or Path(header).anchor:  # an #include may name a file from the root on
        return None
    above = folder.parent
    patterns = [(folder, "*/"), (above, ""), (above, "*/"), (above.parent, "*/"), (folder, "*/*/")]
    paths = (path for start, pattern in patterns for path in sorted(start.glob(pattern + header)))
    path = next(paths, None)
    return Path(str(path).removesuffix(header)) if path else None


def _free(name: str, path: str, taken: Collection[str]) -> str:
    """A name for a file: what an #include calls it, if that is plain and free, or the end of its path."""
    parts = Path(path).parts[1:]
    names = [name] if not re.match(r"[./\\]|\w:", name) else []
    names += ["/".join(parts[-length:]) for length in range(1, len(parts) + 1)]
    return next(each for each in names if each not in taken)
