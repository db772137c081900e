// Combine as a kernel of its own: all threads of the grid are one team. It checks that the device
// side compiles, and shows its registers.
#include "kernels/elements.h"

namespace {

// The limit leaves 128 registers to a thread.
constexpr int kMaxThreads = 512;

}  // namespace

extern "C" __global__ void __launch_bounds__(kMaxThreads)
    mccs_combine(mccs::kernels::ElementOp op, const mccs::kernels::Source* sources,
                 uint32_t source_count, unsigned char* const* destinations,
                 uint32_t destination_count, uint64_t elements) {
  const mccs::kernels::Team team{blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x};
  mccs::kernels::Combine(op, sources, source_count, destinations, destination_count, elements,
                         team);
}
