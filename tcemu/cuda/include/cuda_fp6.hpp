#include <cuda_fp6.h>
