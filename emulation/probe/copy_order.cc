// Copies between processes' GPU memory, and the words that a stream writes after them.

#include <vector>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"
#include "emulation/probe/shared_memory.h"

namespace mccs::probe {
namespace {

constexpr size_t kCopiedWords = 1 << 17;  // 1 MiB
constexpr size_t kCopiedBytes = kCopiedWords * sizeof(uint64_t);
constexpr uint64_t kCopies = 50;
constexpr unsigned kReadingThreads = 256;
constexpr int kCopyLimitMs = 20'000;

// Places in the shared words.
constexpr size_t kCopyPageWords = 512;
constexpr size_t kCopied = 0;
constexpr size_t kRead = 1 * kWordStride;
constexpr size_t kErrors = 2 * kWordStride;

// The second process: its stream on `device` copies each round's data into the first one's memory,
// then writes the word. On one GPU CUDA may copy by a kernel, otherwise by a copy engine.
Outcome CopyRounds(Peer& self, uint64_t* page, int device) {
  PROBE_PASSES(RegisterWords(page, kCopyPageWords, device));
  uint64_t* target = nullptr;
  PROBE_PASSES(OpenShared(self, SharingMethod::kIpc, device, &target));
  std::vector<uint64_t> rounds(kCopies * kCopiedWords);
  for (size_t i = 0; i < rounds.size(); ++i) {
    rounds[i] = Pattern(i / kCopiedWords + 1, i % kCopiedWords);
  }
  PROBE_DEVICE_MEMORY(source, kCopies * kCopiedBytes);
  PROBE_CALL(cudaMemcpy(source, rounds.data(), kCopies * kCopiedBytes, cudaMemcpyHostToDevice));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  const Stopwatch stopwatch;
  for (uint64_t round = 1; round <= kCopies; ++round) {
    PROBE_CALL(cuStreamWaitValue64(stream, Pointer(page + kRead), round - 1, kGeq));
    PROBE_CALL(cuMemcpyAsync(Pointer(target), Pointer(source) + (round - 1) * kCopiedBytes,
                             kCopiedBytes, stream));
    PROBE_CALL(cuStreamWriteValue64(stream, Pointer(page + kCopied), round, 0));
  }
  PROBE_EXPECT(Finishes(stream, kCopyLimitMs), "the copying stream did not end");
  return Pass(Text("%d copies of 1 MiB, each read by the kernel, in %.1f ms",
                   static_cast<int>(kCopies), stopwatch.ms()));
}

Outcome ReadCopies(int copying_device) {
  uint64_t* const page = SharedWords(kCopyPageWords);
  PROBE_EXPECT(page != nullptr, "cannot create shared words");
  Peer copier([=](Peer& self) { return CopyRounds(self, page, copying_device); });
  PROBE_PASSES(RegisterWords(page, kCopyPageWords));
  SharedAllocation data;
  PROBE_PASSES(data.Make(SharingMethod::kIpc, kCopiedBytes));
  PROBE_DEVICE_MEMORY(read, kCopiedBytes);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(kCopy.Launch(stream, {1, kReadingThreads}, page + kCopied, data.words(),
                          static_cast<uint64_t*>(read), kCopiedWords, page + kRead, kCopies,
                          page + kErrors));
  PROBE_PASSES(data.Send(copier));
  const bool ended = Finishes(stream, kCopyLimitMs);
  if (!ended) StoreWord(page + kCopied, kStop);
  const Outcome copied = copier.Join();
  PROBE_PASSES(copied);
  PROBE_EXPECT(ended, "the reading kernel did not end");
  PROBE_EXPECT(LoadWord(page + kErrors) == 0, "the kernel saw the word before the copied data");
  return copied;
}

PROBE_CHECK(
    word_after_copy_between_processes,
    "a kernel sees a copy's data if it sees the word that the copying stream wrote after it") {
  return ReadCopies(0);
}

PROBE_CHECK(word_after_copy_between_gpus, "the same for a copy from another GPU") {
  const Outcome second = SecondGpu();
  return second.verdict == Verdict::kPass ? ReadCopies(1) : second;
}

}  // namespace
}  // namespace mccs::probe
