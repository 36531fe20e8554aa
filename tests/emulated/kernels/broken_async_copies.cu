// Kernels whose copies of 16 bytes or fewer are wrong, each in one way. BrokenAsyncCopies.cpp looks for the lines
// marked
// '// here: NAME' in the errors.
#include "device/async_copy.cuh"
#include "device/device.cuh"

namespace kiln {

struct alignas(16) Chunk {
  float values[4];
};

extern "C" __global__ void writes_all(float *x) {
  waitForDependencies();
  x[threadIndex()] = 1.0f;
}

KILN_DEVICE void finishChunk(float *x, const Chunk &chunk) {
  commitAsyncCopies();
  waitAsyncCopies<0>();
  x[0] = chunk.values[0];
}
extern "C" __global__ void chunk_from_outside(float *x, u32 first, u32 bytes) {
  Chunk &chunk = sharedStorage<Chunk>();
  waitForDependencies();
  copyAsync(SharedAddress(&chunk), x + first, bytes); // here: chunk_from_outside
  finishChunk(x, chunk);
}
extern "C" __global__ void chunk_too_early(float *x, u32 first, u32 bytes) {
  Chunk &chunk = sharedStorage<Chunk>();
  copyAsync(SharedAddress(&chunk), x + first, bytes); // here: chunk_too_early
  waitForDependencies();
  finishChunk(x, chunk);
}

} // namespace kiln
