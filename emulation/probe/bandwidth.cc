// The bandwidth of the GPU's memory, which limits every collective on one GPU.

#include <algorithm>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"

namespace mccs::probe {
namespace {

constexpr int kCopiesOfBatch = 10;
constexpr int kBandwidthBatches = 5;
constexpr int kBandwidthLimitMs = 10'000;

// GB/s, read and written, of the fastest batch. `copy` enqueues one copy and returns an Outcome.
template <typename Copy>
Outcome Measure(cudaStream_t stream, size_t bytes, const Copy& copy, double* gbps) {
  *gbps = 0;
  for (int batch = 0; batch <= kBandwidthBatches; ++batch) {
    const Stopwatch stopwatch;
    for (int i = 0; i < kCopiesOfBatch; ++i) PROBE_PASSES(copy());
    PROBE_EXPECT(Finishes(stream, kBandwidthLimitMs), "the copies did not end");
    const double moved = 2.0 * kCopiesOfBatch * static_cast<double>(bytes);
    // The first one loads the kernel.
    if (batch > 0) *gbps = std::max(*gbps, moved / stopwatch.us() / 1e3);
  }
  return Pass();
}

PROBE_CHECK(bandwidth_of_copies,
            "reports the bandwidth of copies within the GPU's memory, read and written") {
  // On a GPU larger than any cache.
  const size_t bytes = (OnEmulation() ? size_t{16} : size_t{512}) << 20;
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_DEVICE_MEMORY(from, bytes);
  PROBE_DEVICE_MEMORY(to, bytes);
  PROBE_CALL(cudaMemset(from, 1, bytes));
  int processors = 0;
  PROBE_CALL(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  constexpr unsigned kThreads = 512;
  constexpr unsigned kBlocksPerProcessor = 4;
  const Shape shape{.blocks = static_cast<unsigned>(processors) * kBlocksPerProcessor,
                    .threads = kThreads};
  const auto is_copied = [&]() -> Outcome {
    for (const size_t at : {size_t{0}, bytes / 2, bytes - 1}) {
      unsigned char value = 0;
      PROBE_CALL(cudaMemcpy(&value, static_cast<unsigned char*>(to) + at, 1,
                            cudaMemcpyDeviceToHost));
      PROBE_EXPECT(value == 1, "the copy is not complete");
    }
    PROBE_CALL(cudaMemset(to, 0, bytes));
    return Pass();
  };
  double by_kernel = 0;
  double by_call = 0;
  PROBE_CALL(cudaMemset(to, 0, bytes));
  PROBE_PASSES(Measure(
      stream, bytes,
      [&]() -> Outcome {
        PROBE_CALL(kStream.Launch(stream, shape, static_cast<const Unit*>(from),
                                  static_cast<Unit*>(to), bytes / sizeof(Unit)));
        return Pass();
      },
      &by_kernel));
  PROBE_PASSES(is_copied());
  PROBE_PASSES(Measure(
      stream, bytes,
      [&]() -> Outcome {
        PROBE_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
        return Pass();
      },
      &by_call));
  PROBE_PASSES(is_copied());
  return Pass(Text("kernel %.1f GB/s, cudaMemcpyAsync %.1f GB/s", by_kernel, by_call));
}

}  // namespace
}  // namespace mccs::probe
