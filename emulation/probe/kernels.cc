// The kernel by which a stream waits for a word (proto/fence_page.h): which values release it, and
// which work it blocks. CUDA's own functions load the image that libnccl.so.2 contains.

#include <iterator>

#include "emulation/probe/probe.h"
#include "proto/fence_page.h"

extern "C" const unsigned char mccs_await_fence_image[];

namespace mccs::probe {
namespace {

Outcome Load(CUkernel* kernel) {
  PROBE_CALL(cudaFree(nullptr));  // creates the context
  CUlibrary library = nullptr;
  PROBE_CALL(cuLibraryLoadData(&library, mccs_await_fence_image, nullptr, nullptr, 0, nullptr,
                               nullptr, 0));
  PROBE_CALL(cuLibraryGetKernel(kernel, library, wire::kAwaitFenceKernel));
  CUfunction function = nullptr;
  PROBE_CALL(cuKernelGetFunction(&function, *kernel));
  return Pass();
}

CUresult Await(CUkernel kernel, cudaStream_t stream, uint64_t* word, uint64_t target) {
  CUdeviceptr address = Pointer(word);
  void* parameters[] = {&address, &target};
  return cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream,
                        parameters, nullptr);
}

PROBE_CHECK(kernel_awaits_word, "a kernel of one thread reads a word that the host advances") {
  CUkernel kernel = nullptr;
  PROBE_PASSES(Load(&kernel));
  PROBE_WORDS(word, kWordStride);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  StoreWord(word, 4);
  PROBE_CALL(Await(kernel, stream, word, 5));
  PROBE_EXPECT(StaysBusy(stream), "the kernel ended before the word reached its target");
  StoreWord(word, 6);
  PROBE_EXPECT(Finishes(stream), "a word beyond the target did not release the kernel");
  PROBE_CALL(Await(kernel, stream, word, 7));
  StoreWord(word, wire::kFencePoison);
  PROBE_EXPECT(Finishes(stream), "the poison value did not release the kernel");
  return Pass();
}

PROBE_CHECK(kernel_leaves_its_queue,
            "kernels that watch words block no other work, even with few hardware queues") {
  CUkernel kernel = nullptr;
  PROBE_PASSES(Load(&kernel));
  constexpr size_t kWaiting = 40;  // more than there are hardware queues
  PROBE_WORDS(words, (kWaiting + 1) * kWordStride);
  cudaStream_t waiting[kWaiting] = {};
  for (size_t i = 0; i < kWaiting; ++i) {
    PROBE_CALL(cudaStreamCreateWithFlags(&waiting[i], cudaStreamNonBlocking));
    PROBE_CALL(Await(kernel, waiting[i], words + i * kWordStride, 1));
  }
  PROBE_STREAM(working, cudaStreamNonBlocking);
  PROBE_DEVICE_MEMORY(device, 1 << 20);
  uint64_t* const written = words + kWaiting * kWordStride;
  PROBE_CALL(cudaMemsetAsync(device, 1, 1 << 20, working));
  PROBE_CALL(cuStreamWriteValue64(working, Pointer(written), 1, 0));
  const bool held = !Finishes(working);
  for (size_t i = 0; i < kWaiting; ++i) {
    PROBE_EXPECT(held || StaysBusy(waiting[kWaiting - 1 - i]),
                 "a kernel did not wait for its word");
    StoreWord(words + (kWaiting - 1 - i) * kWordStride, 1);
    PROBE_EXPECT(held || Finishes(waiting[kWaiting - 1 - i]),
                 "a kernel did not end when its word was written");
  }
  PROBE_EXPECT(!held, "the kernels blocked work of another stream");
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
