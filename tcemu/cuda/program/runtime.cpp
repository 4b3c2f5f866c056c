// The CUDA runtime of `tcemu run`: what a program that nvcc has compiled links with in place of libcudart.
//
// Memory is an arena that this process and tcemu both map: an address on the device is a place in it. Copies happen
// here; launches, variables of the module and tensor maps are questions to tcemu (run.py), a line each, with bytes
// behind it if the line says so. Everything is done when a call returns, so streams and events have little to do.

#include <cuda.h>
#include <cuda_runtime_api.h>

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
    bool freed;
};
struct Variable {
    std::string name;
    size_t bytes;
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
uint64_t arena_bytes, align, top;
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
    {cudaErrorLaunchFailure, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
};

cudaError_t failed(cudaError_t error) { return error == cudaSuccess ? error : (latest = error); }

// A call that a GPU refuses, too: the program gets the error, which it may not look at, and tcemu says what was wrong.
cudaError_t failed(cudaError_t error, const std::string& why, const char* call) {
    fprintf(to, "failed %s returns %s: %s\n", call, cudaGetErrorName(error), why.c_str());
    return failed(error);
}

bool on_device(const void* pointer) { return (uint64_t)pointer < arena_bytes; }
bool in_arena(const void* pointer) { return (char*)pointer >= arena && (char*)pointer < arena + arena_bytes; }

// What lies at an address of the device, in words.
std::string place(uint64_t address) {
    for (const Allocation& each : allocations)
        if (address >= each.address && address < each.address + each.bytes) {
            std::string of = std::to_string(each.bytes) + " bytes that cudaMalloc returned";
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
    int file = open(path, O_RDWR);
    arena = (char*)mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    top = align;
    fprintf(to, "arena %lu\n", (unsigned long)arena);
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

uint64_t placed(size_t bytes) {
    for (Allocation& each : allocations)
        if (each.freed && each.bytes == bytes) {
            each.freed = false;
            return each.address;
        }
    if (top + bytes + align > arena_bytes) return 0;
    uint64_t address = top;
    allocations.push_back({address, bytes, false});
    top = (address + bytes + 2 * align - 1) / align * align;
    return address;
}

uint64_t allocate(size_t bytes) {
    start();
    bytes = bytes ? bytes : 1;
    uint64_t address = placed(bytes);
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
    if (to_host && on_device(target)) return "the target is memory of the device, although the kind of the copy says host";
    if (from_host && on_device(source)) return "the source is memory of the device, although the kind of the copy says host";
    if (!to_host && !on_device(target) && !in_arena(target)) return "the target is memory of the host, although the kind of the copy says device";
    if (!from_host && !on_device(source) && !in_arena(source)) return "the source is memory of the host, although the kind of the copy says device";
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
    size_t limit = most == dynamic_shared.end() ? 48 << 10 : most->second;
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

cudaError_t symbol(const char* verb, const void* name, void* bytes, size_t count, size_t offset, bool read) {
    start();
    const char* call = read ? "cudaMemcpyFromSymbol" : "cudaMemcpyToSymbol";
    auto found = variables.find(name);
    if (found == variables.end()) return failed(cudaErrorInvalidSymbol, "that is no __device__ or __constant__ variable; name the variable itself, not its address or its name", call);
    if (offset + count > found->second.bytes)
        return failed(cudaErrorInvalidValue, std::to_string(offset + count) + " bytes do not fit: " + found->second.name + " has " + std::to_string(found->second.bytes), call);
    std::lock_guard<std::recursive_mutex> alone(asking);
    char line[64];
    snprintf(line, sizeof line, "%s %zu %zu ", verb, offset, count);
    asked(line + found->second.name, read ? nullptr : bytes, read ? 0 : count);
    if (read && fread(bytes, 1, count, from) != count) _exit(1);
    return cudaSuccess;
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
    variables[host] = {name, bytes};
}
void __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, size_t, int, int) {
    start();
    refused(("__managed__ variables, such as " + std::string(name)).c_str());
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
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** given, size_t shared, cudaStream_t) {
    return launched((const void*)kernel, grid, block, given, shared);
}

// ---- launches

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** given, size_t shared, cudaStream_t) {
    return launched(function, grid, block, given, shared);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** given, size_t shared, cudaStream_t) {
    return launched(function, grid, block, given, shared);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** given) {
    dim3 cluster(0, 0, 0);
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            auto size = config->attrs[i].val.clusterDim;
            cluster = dim3(size.x, size.y, size.z);
        }
    return launched(function, config->gridDim, config->blockDim, given, config->dynamicSmemBytes, cluster);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    start();
    if (value > 227 << 10) return failed(cudaErrorInvalidValue, std::to_string(value) + " bytes of dynamic shared memory: an H100 has 232448 for a block", "cudaFuncSetAttribute");
    dynamic_shared[function] = value;
    return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void*) {
    memset(found, 0, sizeof *found);
    found->maxThreadsPerBlock = 1024, found->numRegs = 32, found->ptxVersion = found->binaryVersion = 90;
    found->maxDynamicSharedSizeBytes = 227 << 10;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t shared) {
    int by_threads = 2048 / (threads > 0 ? threads : 1), by_shared = shared ? (228 << 10) / (int)(shared + 1024) : 32;
    *blocks = by_threads < by_shared ? by_threads : by_shared;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int threads, size_t shared, unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}

// ---- memory

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    *pointer = (void*)allocate(bytes);
    return failed(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(pointer, *pitch * height);
}
// Managed memory is the arena as this process sees it; tcemu translates pointers to it among a kernel's arguments.
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) {
    uint64_t address = allocate(bytes);
    *pointer = address ? arena + address : nullptr;
    return failed(address ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* pointer) {
    if (!pointer) return cudaSuccess;
    start();
    uint64_t address = in_arena(pointer) ? (uint64_t)((char*)pointer - arena) : (uint64_t)pointer;
    for (Allocation& each : allocations)
        if (each.address == address && !each.freed) {
            each.freed = true;
            fprintf(to, "freed %lu\n", address);
            return cudaSuccess;
        }
    return failed(cudaErrorInvalidValue, in_arena(pointer) || on_device(pointer) ? "the pointer is to " + place(address) : "cudaMalloc has not returned this pointer", "cudaFree");
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return failed((*pointer = malloc(bytes)) ? cudaSuccess : cudaErrorMemoryAllocation); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return cudaMallocManaged(pointer, bytes, 0); }
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) { *device = host; return cudaSuccess; }
cudaError_t cudaFreeHost(void* pointer) {
    if (in_arena(pointer)) return cudaFree(pointer);
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
cudaError_t cudaGetSymbolAddress(void**, const void*) { start(); refused("cudaGetSymbolAddress"); }
cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* pointer) {
    start();
    memset(found, 0, sizeof *found);
    found->type = on_device(pointer) ? cudaMemoryTypeDevice : in_arena(pointer) ? cudaMemoryTypeManaged : cudaMemoryTypeUnregistered;
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
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
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
    found->memoryBusWidth = 5120, found->unifiedAddressing = found->managedMemory = found->cooperativeLaunch = found->concurrentKernels = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* found, int device) { return cudaGetDeviceProperties(found, device); }
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
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrCooperativeLaunch: case cudaDevAttrManagedMemory: case cudaDevAttrUnifiedAddressing: *value = 1; break;
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
