// Writes lines to a peer and reads the peer's. It checks that the device side compiles, and shows its
// registers.
#include "kernels/low_latency.h"

extern "C" __global__ void mccs_exchange_lines(const unsigned char* from, unsigned char* to,
                                               uint64_t bytes, uint32_t flag,
                                               mccs::kernels::LowLatencyLine* peer_lines,
                                               const mccs::kernels::LowLatencyLine* own_lines,
                                               const volatile uint32_t* stop) {
  const mccs::kernels::Team team{blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x};
  mccs::kernels::WriteLines(from, bytes, flag, peer_lines, team);
  mccs::kernels::ReadLines(own_lines, bytes, flag, to, team, [stop] { return *stop != 0; });
}
