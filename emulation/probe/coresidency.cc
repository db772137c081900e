// Kernels of many streams that wait for each other: all must run at the same time.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"

namespace mccs::probe {
namespace {

constexpr unsigned kMeetingKernels = 32;
constexpr unsigned kBlocksOfKernel = 16;
constexpr unsigned kMeetingThreads = 256;
constexpr unsigned kMeetingBlocks = kMeetingKernels * kBlocksOfKernel;

// How many of the blocks a GPU has room for.
Outcome Room(unsigned* blocks) {
  CUfunction kernel = nullptr;
  CUfunction function = nullptr;
  int per_multiprocessor = 0;
  int multiprocessors = 0;
  PROBE_CALL(FindKernel(kMeet.name(), &kernel));
  PROBE_CALL(cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(kernel)));
  PROBE_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, function,
                                                         kMeetingThreads, 0));
  PROBE_CALL(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  *blocks = static_cast<unsigned>(per_multiprocessor * multiprocessors);
  return Pass();
}

Outcome MeetAll() {
  if (OnEmulation()) return Skip(kOneKernelAtATime);
  unsigned room = 0;
  PROBE_PASSES(Room(&room));
  if (room < kMeetingBlocks)
    return Skip(Text("the GPU has room for %u of %u blocks", room, kMeetingBlocks));
  PROBE_WORDS(words, kWordStride + kMeetingBlocks);
  uint64_t* const stop = words;
  uint64_t* const reported = words + kWordStride;
  PROBE_DEVICE_MEMORY(arrived, kMeetingBlocks * sizeof(uint64_t));
  PROBE_CALL(cudaMemset(arrived, 0, kMeetingBlocks * sizeof(uint64_t)));
  PROBE_CALL(cudaDeviceSynchronize());
  std::vector<cudaStream_t> streams(kMeetingKernels);
  for (cudaStream_t& stream : streams) {
    PROBE_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  const Stopwatch stopwatch;
  for (unsigned i = 0; i < kMeetingKernels; ++i) {
    PROBE_CALL(kMeet.Launch(streams[i], {kBlocksOfKernel, kMeetingThreads},
                            static_cast<uint64_t*>(arrived), reported, stop, i * kBlocksOfKernel,
                            kMeetingBlocks));
  }
  const bool met = std::all_of(streams.begin(), streams.end(),
                               [](cudaStream_t stream) { return Finishes(stream); });
  const double ms = stopwatch.ms();
  const auto count = std::count_if(reported, reported + kMeetingBlocks,
                                   [](const uint64_t& word) { return LoadWord(&word) != 0; });
  StoreWord(stop, 1);
  for (cudaStream_t stream : streams) {
    PROBE_EXPECT(Finishes(stream), "a kernel did not end after it was stopped");
  }
  PROBE_EXPECT(met, Text("only %u of %u blocks ran at the same time, %u have room",
                         static_cast<unsigned>(count), kMeetingBlocks, room));
  return Pass(Text("%u blocks of %u threads met after %.2f ms; the GPU has room for %u",
                   kMeetingBlocks, kMeetingThreads, ms, room));
}

PROBE_CHECK(kernels_of_many_streams_meet,
            "32 kernels of 16 blocks, in 32 streams, that wait for each other all run at once") {
  return MeetAll();
}

PROBE_CHECK(kernels_meet_with_one_queue, "the same with CUDA_DEVICE_MAX_CONNECTIONS=1") {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);  // before this process uses CUDA
  return MeetAll();
}

}  // namespace
}  // namespace mccs::probe
