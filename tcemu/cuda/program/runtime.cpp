// The CUDA runtime of `tcemu run`: what a program that nvcc has compiled links with in place of libcudart.
//
// Memory is an arena that this process and tcemu both map: an address on the device is a place in it. Copies happen
// here; launches, variables of the module and tensor maps are questions to tcemu (run.py), a line each, with bytes
// behind it if the line says so. Everything is done when a call returns, so streams and events have little to do.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

struct Allocation {
    uint64_t address, bytes;
    bool freed, managed;
};
struct Variable {
    std::string name;
    size_t bytes;
    uint64_t address;  // once somebody has asked for it
};
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

FILE *to, *from;
// Threads ask one after the other.
std::recursive_mutex asking;
char* arena;
int arena_file;
uint64_t arena_bytes, align, top;
// Managed memory has the device's addresses in this process, too: pages of the arena are mapped there, up to here. Linux
// maps none below the first.
uint64_t mapped;
const uint64_t page = 4096, first_page = 64 << 10;
// How much of new memory is filled: the file behind it is sparse.
const size_t garbage = 64 << 20;
std::vector<Allocation> allocations;
std::map<const void*, std::string> kernels;
std::map<const void*, Variable> variables;
std::map<const void*, size_t> dynamic_shared;
std::map<std::string, std::vector<size_t>> parameters;
std::vector<Configuration> configurations;
cudaError_t latest = cudaSuccess;
double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Error {
    const char *name, *text;
};
const std::map<cudaError_t, Error> errors = {
    {cudaSuccess, {"cudaSuccess", "no error"}},
    {cudaErrorInvalidValue, {"cudaErrorInvalidValue", "invalid argument"}},
    {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
    {cudaErrorInvalidConfiguration, {"cudaErrorInvalidConfiguration", "invalid configuration argument"}},
    {cudaErrorInvalidDevice, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
    {cudaErrorInvalidSymbol, {"cudaErrorInvalidSymbol", "invalid device symbol"}},
    {cudaErrorInvalidDeviceFunction, {"cudaErrorInvalidDeviceFunction", "invalid device function"}},
    {cudaErrorInvalidResourceHandle, {"cudaErrorInvalidResourceHandle", "invalid resource handle"}},
    {cudaErrorIllegalAddress, {"cudaErrorIllegalAddress", "an illegal memory access was encountered"}},
    {cudaErrorCooperativeLaunchTooLarge, {"cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"}},
    {cudaErrorInvalidClusterSize, {"cudaErrorInvalidClusterSize", "cluster misconfiguration"}},
    {cudaErrorAssert, {"cudaErrorAssert", "device-side assert triggered"}},
    {cudaErrorLaunchFailure, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
};

cudaError_t failed(cudaError_t error) { return error == cudaSuccess ? error : (latest = error); }

// A call that a GPU refuses, too: the program gets the error, which it may not look at, and tcemu says what was wrong.
cudaError_t failed(cudaError_t error, const std::string& why, const char* call) {
    fprintf(to, "failed %s returns %s: %s\n", call, cudaGetErrorName(error), why.c_str());
    return failed(error);
}

bool on_device(const void* pointer) { return (uint64_t)pointer < arena_bytes; }
bool managed(const void* pointer) {
    for (const Allocation& each : allocations)
        if (each.managed && !each.freed && (uint64_t)pointer - each.address < each.bytes) return true;
    return false;
}

// What lies at an address of the device, in words.
std::string place(uint64_t address) {
    for (const Allocation& each : allocations)
        if (address >= each.address && address < each.address + each.bytes) {
            std::string of = std::to_string(each.bytes) + " bytes that cudaMalloc" + (each.managed ? "Managed" : "") + " returned";
            return each.freed ? "the " + of + " and cudaFree has freed" : "byte " + std::to_string(address - each.address) + " of the " + of;
        }
    return "memory that cudaMalloc has not returned";
}

// Host code that uses a pointer to the device's memory.
void segmentation_fault(int, siginfo_t* given, void*) {
    signal(SIGSEGV, SIG_DFL);
    if (on_device(given->si_addr) && (uint64_t)given->si_addr >= align && to) {
        fflush(stdout);
        fprintf(to, "dereferenced %s\n", place((uint64_t)given->si_addr).c_str());
        fflush(to);
    }
}

// What this runtime does not do ends the program with a sentence that names it.
[[noreturn]] void refused(const char* what) {
    fflush(stdout);
    fprintf(to, "refused %s\n", what);
    fflush(to);
    _exit(1);
}

void start() {
    if (to) return;
    const char* given = getenv("TCEMU_RUNTIME");
    int in, out;
    char path[4096];
    if (!given || sscanf(given, "%d %d %lu %lu %4095s", &in, &out, &align, &arena_bytes, path) != 5) {
        fprintf(stderr, "this program was linked with tcemu's CUDA runtime: start it with `tcemu run`\n");
        exit(1);
    }
    from = fdopen(in, "rb"), to = fdopen(out, "wb");
    arena_file = open(path, O_RDWR);
    arena = (char*)mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena_file, 0);
    top = align;
    struct sigaction action = {};
    action.sa_sigaction = segmentation_fault, action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
}

// Ask tcemu: its answer is a line of numbers. Output comes first, so that it stands in order.
std::vector<long> asked(const std::string& line, const void* bytes = nullptr, size_t count = 0) {
    std::lock_guard<std::recursive_mutex> alone(asking);
    start();
    fflush(stdout);
    fprintf(to, "%s\n", line.c_str());
    if (count) fwrite(bytes, 1, count, to);
    fflush(to);
    char buffer[1 << 16];
    if (!fgets(buffer, sizeof buffer, from)) _exit(1);  // tcemu has ended, and says why
    std::vector<long> found;
    char *at = buffer, *end;
    for (long value = strtol(at, &end, 10); at != end; value = strtol(at = end, &end, 10)) found.push_back(value);
    return found;
}

// Where an address is in this process; null unless so many bytes of one allocation begin there.
char* here(const void* pointer, size_t bytes) {
    if (!on_device(pointer)) return (char*)pointer;
    uint64_t address = (uint64_t)pointer;
    for (const Allocation& each : allocations)
        if (!each.freed && address >= each.address && address + bytes <= each.address + each.bytes) return arena + address;
    return nullptr;
}

uint64_t rounded(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Whether the pages of so many bytes from `top` on are mapped at their own addresses; `top` moves on to where they can be.
bool mapped_at_top(size_t bytes) {
    if (top >= mapped) {
        uint64_t begin = rounded(top, page) > first_page ? rounded(top, page) : first_page;
        if (begin == top + align) begin += page;  // a gap has a place to itself
        if (begin > top) fprintf(to, "gap %lu %lu\n", top, begin - top - align);
        top = mapped = begin;
    }
    uint64_t end = rounded(top + bytes, page);
    if (end <= mapped) return true;
    void* at = mmap((void*)mapped, end - mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, arena_file, mapped);
    if (at != (void*)mapped) return false;
    mapped = end;
    return true;
}

uint64_t placed(size_t bytes, bool managed) {
    for (Allocation& each : allocations)
        if (each.freed && each.bytes == bytes && each.managed == managed) {
            each.freed = false;
            return each.address;
        }
    if (bytes > arena_bytes || top + bytes + first_page > arena_bytes || (managed && !mapped_at_top(bytes))) return 0;
    uint64_t address = top;
    allocations.push_back({address, bytes, false, managed});
    top = rounded(address + bytes + align, align);
    return address;
}

uint64_t allocate(size_t bytes, bool managed = false) {
    start();
    bytes = bytes ? bytes : 1;
    uint64_t address = placed(bytes, managed);
    if (!address) return 0;
    fprintf(to, "allocated %lu %lu\n", address, bytes);
    // Nobody knows what is there: not zeros, so that what is read before it is written shows (NaN, as floats).
    memset(arena + address, 0xff, bytes < garbage ? bytes : garbage);
    return address;
}

// Why a copy between these cannot be; empty if it can.
std::string wrong_way(const void* target, const void* source, cudaMemcpyKind kind) {
    if (!target || !source) return std::string("the ") + (target ? "source" : "target") + " is the null pointer";
    bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
    bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
    if (kind == cudaMemcpyDefault) return "";
    if (to_host && on_device(target) && !managed(target)) return "the target is memory of the device, although the kind of the copy says host";
    if (from_host && on_device(source) && !managed(source)) return "the source is memory of the device, although the kind of the copy says host";
    if (!to_host && !on_device(target)) return "the target is memory of the host, although the kind of the copy says device";
    if (!from_host && !on_device(source)) return "the source is memory of the host, although the kind of the copy says device";
    return "";
}

cudaError_t outside(const char* what, const void* pointer, size_t bytes, const char* call) {
    std::string why = std::to_string(bytes) + " bytes do not fit: the " + what + " is " + place((uint64_t)pointer);
    return failed(cudaErrorInvalidValue, why, call);
}

cudaError_t copied(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, const char* call = __builtin_FUNCTION()) {
    if (!bytes) return cudaSuccess;
    start();
    std::string why = wrong_way(target, source, kind);
    if (!why.empty()) return failed(cudaErrorInvalidValue, why, call);
    char *a = here(target, bytes), *b = here(source, bytes);
    if (!a) return outside("target", target, bytes, call);
    if (!b) return outside("source", source, bytes, call);
    memmove(a, b, bytes);
    return cudaSuccess;
}

const std::vector<size_t>& sizes_of(const std::string& name) {
    auto found = parameters.find(name);
    if (found == parameters.end()) {
        std::vector<size_t> sizes;
        for (long each : asked("parameters " + name)) sizes.push_back(each);
        found = parameters.emplace(name, sizes).first;
    }
    return found->second;
}

cudaError_t launched(const void* function, dim3 grid, dim3 block, void** given, size_t shared, dim3 cluster = dim3(0, 0, 0)) {
    start();
    auto kernel = kernels.find(function);
    if (kernel == kernels.end()) return failed(cudaErrorInvalidDeviceFunction);
    auto most = dynamic_shared.find(function);
    size_t own = shared ? asked("attributes " + kernel->second).at(1) : 0;  // what the kernel declares itself
    size_t limit = most == dynamic_shared.end() ? (48 << 10) - own : most->second;
    if (shared > limit) {
        std::string why = std::to_string(shared) + " bytes of dynamic shared memory are more than " + std::to_string(limit) + ": call cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, " + std::to_string(shared) + ") first";
        return failed(cudaErrorInvalidValue, why, "a launch");
    }
    std::string bytes;
    const std::vector<size_t>& sizes = sizes_of(kernel->second);
    for (size_t i = 0; i < sizes.size(); ++i) bytes.append((const char*)given[i], sizes[i]);
    char line[1024];
    snprintf(line, sizeof line, "launch %u %u %u %u %u %u %zu %u %u %u %zu ", grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
             cluster.x, cluster.y, cluster.z, bytes.size());
    return failed((cudaError_t)asked(line + kernel->second, bytes.data(), bytes.size()).at(0));
}

// Where a variable lies from now on.
uint64_t address_of(Variable& variable, bool managed) {
    start();
    if (!variable.address && (variable.address = placed(variable.bytes, managed)))
        asked("place " + std::to_string(variable.address) + ' ' + variable.name);
    return variable.address;
}

cudaError_t no_symbol(const char* call) {
    return failed(cudaErrorInvalidSymbol, "that is no __device__ or __constant__ variable; name the variable itself, not its address or its name", call);
}

cudaError_t symbol(const char* verb, const void* name, void* bytes, size_t count, size_t offset, bool read) {
    start();
    const char* call = read ? "cudaMemcpyFromSymbol" : "cudaMemcpyToSymbol";
    auto found = variables.find(name);
    if (found == variables.end()) return no_symbol(call);
    if (offset + count > found->second.bytes)
        return failed(cudaErrorInvalidValue, std::to_string(offset + count) + " bytes do not fit: " + found->second.name + " has " + std::to_string(found->second.bytes), call);
    std::lock_guard<std::recursive_mutex> alone(asking);
    char line[64];
    snprintf(line, sizeof line, "%s %zu %zu ", verb, offset, count);
    asked(line + found->second.name, read ? nullptr : bytes, read ? 0 : count);
    if (read && fread(bytes, 1, count, from) != count) _exit(1);
    return cudaSuccess;
}

// The blocks of a cluster; zeros if the launch does not say.
dim3 cluster_of(const cudaLaunchConfig_t* config) {
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            auto size = config->attrs[i].val.clusterDim;
            return dim3(size.x, size.y, size.z);
        }
    return dim3(0, 0, 0);
}

}  // namespace

extern "C" {

// ---- what nvcc puts into every program

void** __cudaRegisterFatBinary(void*) { return new void*(nullptr); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    kernels[host] = name;
}
void __cudaRegisterVar(void**, char* host, char*, const char* name, int, size_t bytes, int, int) {
    variables[host] = {name, bytes, 0};
}
// The host reaches a managed variable through a pointer.
void __cudaRegisterManagedVar(void**, void** host, char*, const char* name, int, size_t bytes, int, int) {
    variables[host] = {name, bytes, 0};
    *host = (void*)address_of(variables[host], true);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    configurations.push_back({grid, block, shared, stream});
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    Configuration given = configurations.back();
    configurations.pop_back();
    *grid = given.grid, *block = given.block, *shared = given.shared, *(cudaStream_t*)stream = given.stream;
    return cudaSuccess;
}
#if CUDART_VERSION >= 12010
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** given, size_t shared, cudaStream_t) {
    return launched((const void*)kernel, grid, block, given, shared);
}
#endif

// ---- launches

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** given, size_t shared, cudaStream_t) {
    return launched(function, grid, block, given, shared);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** given) {
    return launched(function, config->gridDim, config->blockDim, given, config->dynamicSmemBytes, cluster_of(config));
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    start();
    if (value > 227 << 10) return failed(cudaErrorInvalidValue, std::to_string(value) + " bytes of dynamic shared memory: an H100 has 232448 for a block", "cudaFuncSetAttribute");
    dynamic_shared[function] = value;
    return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void* function) {
    start();
    auto kernel = kernels.find(function);
    if (kernel == kernels.end()) return failed(cudaErrorInvalidDeviceFunction);
    std::vector<long> known = asked("attributes " + kernel->second);
    memset(found, 0, sizeof *found);
    found->maxThreadsPerBlock = (int)known.at(0), found->sharedSizeBytes = known.at(1);
    found->numRegs = 32, found->ptxVersion = found->binaryVersion = 90;
    found->maxDynamicSharedSizeBytes = (227 << 10) - known.at(1);
    return cudaSuccess;
}
// By threads and shared memory: nobody knows the registers that ptxas would take.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
    cudaFuncAttributes of;
    if (cudaError_t error = cudaFuncGetAttributes(&of, function)) return error;
    if (threads < 1) return failed(cudaErrorInvalidValue);
    int by_shared = (228 << 10) / (int)(of.sharedSizeBytes + shared + 1024), by_threads = 2048 / (int)rounded(threads, 32);
    *blocks = threads > of.maxThreadsPerBlock || of.sharedSizeBytes + shared > 227 << 10 ? 0 : std::min({by_threads, by_shared, 32});
    return cudaSuccess;
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** given, size_t shared, cudaStream_t) {
    int each, threads = (int)(block.x * block.y * block.z);
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    if (!cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, function, threads, shared) && blocks > 132u * each) {
        std::string why = std::to_string(blocks) + " blocks must run at once, and an H100 has room for " + std::to_string(132 * each);
        return failed(cudaErrorCooperativeLaunchTooLarge, why, "cudaLaunchCooperativeKernel");
    }
    return launched(function, grid, block, given, shared);
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config) {
    int blocks, threads = (int)(config->blockDim.x * config->blockDim.y * config->blockDim.z);
    if (cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, config->dynamicSmemBytes)) return error;
    dim3 cluster = cluster_of(config);
    *clusters = blocks * 132 / (int)std::max(1u, cluster.x * cluster.y * cluster.z);
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void*, const cudaLaunchConfig_t*) { *blocks = 8; return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int threads, size_t shared, unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}

// ---- memory

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    *pointer = (void*)allocate(bytes);
    return failed(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
// Pools: memory is never short, so that it does not matter which one it comes from.
cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { *pool = (cudaMemPool_t)1; return cudaSuccess; }
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) { return cudaDeviceGetDefaultMemPool(pool, 0); }
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(pointer, *pitch * height);
}
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) {
    *pointer = (void*)allocate(bytes, true);
    return failed(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* pointer) {
    if (!pointer) return cudaSuccess;
    start();
    uint64_t address = (uint64_t)pointer;
    for (Allocation& each : allocations)
        if (each.address == address && !each.freed) {
            each.freed = true;
            fprintf(to, "freed %lu\n", address);
            return cudaSuccess;
        }
    return failed(cudaErrorInvalidValue, on_device(pointer) ? "the pointer is to " + place(address) : "cudaMalloc has not returned this pointer", "cudaFree");
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return failed((*pointer = malloc(bytes)) ? cudaSuccess : cudaErrorMemoryAllocation); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return cudaMallocManaged(pointer, bytes, 0); }
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) { *device = host; return cudaSuccess; }
cudaError_t cudaFreeHost(void* pointer) {
    if (on_device(pointer)) return cudaFree(pointer);
    free(pointer);
    return cudaSuccess;
}
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) { return copied(target, source, bytes, kind); }
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t) { return copied(target, source, bytes, kind); }
cudaError_t cudaMemcpy2D(void* target, size_t to_pitch, const void* source, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    for (size_t row = 0; row < height; ++row)
        if (cudaError_t error = copied((char*)target + row * to_pitch, (const char*)source + row * from_pitch, width, kind)) return error;
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* a, size_t p, const void* b, size_t q, size_t w, size_t h, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpy2D(a, p, b, q, w, h, kind);
}
cudaError_t cudaMemset(void* target, int value, size_t bytes) {
    if (!bytes) return cudaSuccess;
    start();
    char* at = here(target, bytes);
    if (!at) return outside("target", target, bytes, "cudaMemset");
    memset(at, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t) { return cudaMemset(target, value, bytes); }
cudaError_t cudaMemset2D(void* target, size_t pitch, int value, size_t width, size_t height) {
    for (size_t row = 0; row < height; ++row)
        if (cudaError_t error = cudaMemset((char*)target + row * pitch, value, width)) return error;
    return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void* target, size_t pitch, int value, size_t width, size_t height, cudaStream_t) {
    return cudaMemset2D(target, pitch, value, width, height);
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent of) {
    made->xsize = of.width, made->ysize = of.height;
    return cudaMallocPitch(&made->ptr, &made->pitch, of.width, of.height * of.depth);
}
cudaError_t cudaMemset3D(cudaPitchedPtr target, int value, cudaExtent of) {
    for (size_t slice = 0; slice < of.depth; ++slice)
        if (cudaError_t error = cudaMemset2D((char*)target.ptr + slice * target.pitch * target.ysize, target.pitch, value, of.width, of.height)) return error;
    return cudaSuccess;
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
    if (copy->srcArray || copy->dstArray) start(), refused("cudaMemcpy3D of a cudaArray");
    auto row = [](const cudaPitchedPtr& in, const cudaPos& from, size_t y, size_t z) {
        return (char*)in.ptr + ((from.z + z) * in.ysize + from.y + y) * in.pitch + from.x;
    };
    for (size_t z = 0; z < copy->extent.depth; ++z)
        for (size_t y = 0; y < copy->extent.height; ++y)
            if (cudaError_t error = copied(row(copy->dstPtr, copy->dstPos, y, z), row(copy->srcPtr, copy->srcPos, y, z), copy->extent.width, copy->kind)) return error;
    return cudaSuccess;
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t) { return cudaMemcpy3D(copy); }
cudaError_t cudaMemcpyPeer(void* target, int, const void* source, int, size_t bytes) { return copied(target, source, bytes, cudaMemcpyDeviceToDevice); }
cudaError_t cudaMemcpyPeerAsync(void* target, int, const void* source, int, size_t bytes, cudaStream_t) { return copied(target, source, bytes, cudaMemcpyDeviceToDevice); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    start();
    *free = arena_bytes - top, *total = arena_bytes;
    return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void* name, const void* source, size_t count, size_t offset, cudaMemcpyKind) {
    char* at = here(source, count);
    return at ? symbol("write", name, at, count, offset, false) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyFromSymbol(void* target, const void* name, size_t count, size_t offset, cudaMemcpyKind) {
    char* at = here(target, count);
    return at ? symbol("read", name, at, count, offset, true) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* name, const void* source, size_t count, size_t offset, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpyToSymbol(name, source, count, offset, kind);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* target, const void* name, size_t count, size_t offset, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpyFromSymbol(target, name, count, offset, kind);
}
cudaError_t cudaGetSymbolAddress(void** address, const void* name) {
    auto found = variables.find(name);
    if (found == variables.end()) return start(), no_symbol("cudaGetSymbolAddress");
    *address = (void*)address_of(found->second, false);
    return failed(*address ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaGetSymbolSize(size_t* bytes, const void* name) {
    auto found = variables.find(name);
    if (found == variables.end()) return start(), no_symbol("cudaGetSymbolSize");
    *bytes = found->second.bytes;
    return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }
#else
cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
#endif
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* pointer) {
    start();
    memset(found, 0, sizeof *found);
    found->type = managed(pointer) ? cudaMemoryTypeManaged : on_device(pointer) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    found->devicePointer = (void*)pointer;
    return cudaSuccess;
}

// ---- streams and events: all is done already

cudaError_t cudaStreamCreate(cudaStream_t* stream) { *stream = (cudaStream_t)1; return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return latest; }
cudaError_t cudaStreamQuery(cudaStream_t) { return latest; }
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) { *priority = 0; return cudaSuccess; }
cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) { *flags = 0; return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) { *status = cudaStreamCaptureStatusNone; return cudaSuccess; }
cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue*) { return cudaSuccess; }
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* given, unsigned) {
    call(stream, latest, given);
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t call, void* given) {
    call(given);
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { *event = (cudaEvent_t) new double(0); return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    if (!event) return failed(cudaErrorInvalidResourceHandle);
    *(double*)event = now();
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) { return cudaEventRecord(event, stream); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return latest; }
cudaError_t cudaEventQuery(cudaEvent_t) { return latest; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { delete (double*)event; return cudaSuccess; }
// The emulator's own time, not a GPU's.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
    if (!first || !last || !*(double*)first || !*(double*)last) {
        start();
        return failed(cudaErrorInvalidResourceHandle, "cudaEventRecord has not recorded one of the events yet", "cudaEventElapsedTime");
    }
    *milliseconds = (float)(*(double*)last - *(double*)first);
    return cudaSuccess;
}

// ---- the device

cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return failed(device ? cudaErrorInvalidDevice : cudaSuccess); }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return latest; }
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit which) {
    *value = which == cudaLimitStackSize ? 1 << 10 : which == cudaLimitPrintfFifoSize ? 1 << 20 : 8 << 20;
    return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { *least = *greatest = 0; return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { *can = 0; return cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return failed(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceDisablePeerAccess(int) { return failed(cudaErrorInvalidDevice); }
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int device) {
    if (device) return failed(cudaErrorInvalidDevice);
    start();
    memset(found, 0, sizeof *found);
    strcpy(found->name, "tcemu, as an H100");
    found->major = 9, found->minor = 0, found->warpSize = 32, found->multiProcessorCount = 132;
    found->totalGlobalMem = arena_bytes, found->totalConstMem = 64 << 10, found->l2CacheSize = 50 << 20;
    found->sharedMemPerBlock = 48 << 10, found->sharedMemPerBlockOptin = 227 << 10, found->sharedMemPerMultiprocessor = 228 << 10;
    found->regsPerBlock = found->regsPerMultiprocessor = 64 << 10;
    found->maxThreadsPerBlock = found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024, found->maxThreadsDim[2] = 64;
    found->maxGridSize[0] = 0x7fffffff, found->maxGridSize[1] = found->maxGridSize[2] = 65535;
    found->maxThreadsPerMultiProcessor = 2048, found->maxBlocksPerMultiProcessor = 32;
    found->asyncEngineCount = 3, found->sharedMemPerBlock = 48 << 10, found->reservedSharedMemPerBlock = 1 << 10;
    found->canMapHostMemory = found->concurrentManagedAccess = found->memoryPoolsSupported = found->ECCEnabled = 1;
    found->memoryBusWidth = 5120, found->unifiedAddressing = found->managedMemory = found->cooperativeLaunch = found->concurrentKernels = 1;
    return cudaSuccess;
}
#ifndef cudaGetDeviceProperties  // CUDA 12's name for it is a macro
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* found, int device) { return cudaGetDeviceProperties(found, device); }
#endif
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
    cudaDeviceProp found;
    cudaGetDeviceProperties(&found, 0);
    switch (which) {
        case cudaDevAttrMultiProcessorCount: *value = found.multiProcessorCount; break;
        case cudaDevAttrComputeCapabilityMajor: *value = found.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = found.minor; break;
        case cudaDevAttrMaxThreadsPerBlock: *value = found.maxThreadsPerBlock; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = found.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)found.sharedMemPerBlock; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)found.sharedMemPerBlockOptin; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)found.sharedMemPerMultiprocessor; break;
        case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: case cudaDevAttrMaxBlockDimZ:
            *value = found.maxThreadsDim[which - cudaDevAttrMaxBlockDimX];
            break;
        case cudaDevAttrMaxGridDimX: case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ:
            *value = found.maxGridSize[which - cudaDevAttrMaxGridDimX];
            break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = found.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = found.regsPerBlock; break;
        case cudaDevAttrTotalConstantMemory: *value = (int)found.totalConstMem; break;
        case cudaDevAttrReservedSharedMemoryPerBlock: *value = (int)found.reservedSharedMemPerBlock; break;
        case cudaDevAttrAsyncEngineCount: *value = found.asyncEngineCount; break;
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrCooperativeLaunch: case cudaDevAttrManagedMemory: case cudaDevAttrUnifiedAddressing:
        case cudaDevAttrConcurrentKernels: case cudaDevAttrCanMapHostMemory: case cudaDevAttrConcurrentManagedAccess:
        case cudaDevAttrMemoryPoolsSupported: case cudaDevAttrEccEnabled:
            *value = 1;
            break;
        case cudaDevAttrClockRate: *value = 1755000; break;
        case cudaDevAttrMemoryClockRate: *value = 2619000; break;
        case cudaDevAttrL2CacheSize: *value = found.l2CacheSize; break;
        case cudaDevAttrGlobalMemoryBusWidth: *value = found.memoryBusWidth; break;
        default: *value = 0;
    }
    return cudaSuccess;
}

// ---- errors

cudaError_t cudaGetLastError() { cudaError_t found = latest; latest = cudaSuccess; return found; }
cudaError_t cudaPeekAtLastError() { return latest; }
const char* cudaGetErrorName(cudaError_t error) {
    auto found = errors.find(error);
    return found == errors.end() ? "cudaErrorUnknown" : found->second.name;
}
const char* cudaGetErrorString(cudaError_t error) {
    auto found = errors.find(error);
    return found == errors.end() ? "unknown error" : found->second.text;
}

// ---- the driver's tensor maps, which programs reach through the runtime or by linking with libcuda

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* shape,
                                const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    std::string line = "tensor_map " + std::to_string((int)type) + ' ' + std::to_string(rank) + ' ' + std::to_string((uint64_t)address);
    for (unsigned i = 0; i < rank; ++i) line += ' ' + std::to_string(shape[i]);
    for (unsigned i = 0; i + 1 < rank; ++i) line += ' ' + std::to_string(strides[i]);
    for (unsigned i = 0; i < rank; ++i) line += ' ' + std::to_string(box[i]);
    for (unsigned i = 0; i < rank; ++i) line += ' ' + std::to_string(steps[i]);
    line += ' ' + std::to_string((int)interleave) + ' ' + std::to_string((int)swizzle) + ' ' + std::to_string((int)promotion) + ' ' + std::to_string((int)fill);
    if (asked(line).at(0)) return CUDA_ERROR_INVALID_VALUE;
    return fread(map, 1, sizeof *map, from) == sizeof *map ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char** text) { *text = error ? "an error of the driver" : "no error"; return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** text) { return cuGetErrorString(error, text); }
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long, cudaDriverEntryPointQueryResult* status) {
    bool known = !strcmp(name, "cuTensorMapEncodeTiled");
    *function = known ? (void*)cuTensorMapEncodeTiled : nullptr;
    if (status) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, status);
}

}  // extern "C"
