// Words that streams write and wait for.

#include <cstring>
#include <thread>

#include "emulation/probe/probe.h"
#include "proto/fence_page.h"

namespace mccs::probe {
namespace {

constexpr unsigned kGeq = CU_STREAM_WAIT_VALUE_GEQ;

struct Fixture {
  cudaStream_t stream = nullptr;
  uint64_t* words = nullptr;
};

// A non-blocking stream and 64 words.
Outcome Prepare(Fixture* fixture) {
  PROBE_CALL(cudaStreamCreateWithFlags(&fixture->stream, cudaStreamNonBlocking));
  fixture->words = PinnedWords(64);
  PROBE_HOLDS(fixture->words != nullptr, "no pinned memory");
  return Pass();
}
#define PROBE_PREPARE(fixture) \
  Fixture fixture;             \
  if (Outcome prepared = Prepare(&fixture); prepared.verdict != Verdict::kPass) return prepared

Outcome WaitBeforeSignal() {
  PROBE_PREPARE(f);
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(f.words), 7, kGeq));
  PROBE_CALL(cuStreamWriteValue64(f.stream, Pointer(f.words + 8), 1, 0));
  PROBE_HOLDS(StaysBusy(f.stream), "the stream did not wait");
  PROBE_HOLDS(LoadWord(f.words + 8) == 0, "the write overtook the wait");
  StoreWord(f.words, 7);
  PROBE_HOLDS(Finishes(f.stream), "the store did not release the stream");
  PROBE_HOLDS(LoadWord(f.words + 8) == 1, "the write behind the wait is missing");
  return Pass();
}

Outcome WaitAfterSignal() {
  PROBE_PREPARE(f);
  StoreWord(f.words, 9);
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(f.words), 7, kGeq));
  PROBE_HOLDS(Finishes(f.stream), "a wait that is over already held the stream");
  return Pass();
}

// Whether a stream passes a wait for `value` with the word at `word`.
Outcome Expect(uint64_t word, uint64_t value, unsigned flags, bool passes, const char* text) {
  PROBE_PREPARE(f);
  StoreWord(f.words, word);
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(f.words), value, flags));
  const bool passed = passes ? Finishes(f.stream) : !StaysBusy(f.stream);
  StoreWord(f.words, flags == kGeq ? value : 1);
  PROBE_HOLDS(passed == passes, text);
  return Pass();
}
#define PROBE_EXPECT(...) \
  if (Outcome expected = Expect(__VA_ARGS__); expected.verdict != Verdict::kPass) return expected

Outcome GeqWraps() {
  const uint64_t before_wrap = ~uint64_t{0} - 9;
  PROBE_EXPECT(5, before_wrap, kGeq, true, "5 is not after 2^64-10");
  PROBE_EXPECT(before_wrap, 5, kGeq, false, "2^64-10 counts as after 5");
  PROBE_EXPECT(4, 5, kGeq, false, "4 counts as after 5");
  return Pass();
}

Outcome GeqWraps32() {
  PROBE_PREPARE(f);
  auto* narrow = reinterpret_cast<uint32_t*>(f.words);
  narrow[0] = 5;
  PROBE_CALL(cuStreamWaitValue32(f.stream, Pointer(narrow), 0xfffffff0u, kGeq));
  PROBE_HOLDS(Finishes(f.stream), "5 is not after 2^32-16");
  return Pass();
}

Outcome PoisonReleases() {
  const uint64_t targets[] = {1, uint64_t{1} << 32, (uint64_t{1} << 62) - 1};
  for (const uint64_t target : targets) {
    PROBE_EXPECT(wire::kFencePoison, target, kGeq, true, "poison did not release a wait");
  }
  PROBE_PREPARE(f);
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(f.words), 1000, kGeq));
  PROBE_HOLDS(StaysBusy(f.stream), "the stream did not wait");
  StoreWord(f.words, wire::kFencePoison);
  PROBE_HOLDS(Finishes(f.stream), "poison did not release a waiting stream");
  return Pass();
}

Outcome OtherComparisons() {
  PROBE_EXPECT(3, 3, CU_STREAM_WAIT_VALUE_EQ, true, "3 == 3 did not pass");
  PROBE_EXPECT(6, 2, CU_STREAM_WAIT_VALUE_AND, true, "6 & 2 did not pass");
  PROBE_EXPECT(1, 2, CU_STREAM_WAIT_VALUE_NOR, true, "~(1 | 2) did not pass");
  PROBE_PREPARE(f);
  StoreWord(f.words, 4);
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(f.words), 3, CU_STREAM_WAIT_VALUE_EQ));
  PROBE_HOLDS(StaysBusy(f.stream), "4 == 3 passed");
  StoreWord(f.words, 3);
  PROBE_HOLDS(Finishes(f.stream), "3 == 3 did not release");
  return Pass();
}

Outcome WordAfterCopy() {
  PROBE_PREPARE(f);
  constexpr size_t kBytes = 4 << 20;
  constexpr int kRounds = 50;
  void* device = nullptr;
  void* host = nullptr;
  PROBE_CALL(cudaMalloc(&device, kBytes));
  PROBE_CALL(cudaHostAlloc(&host, kBytes, cudaHostAllocDefault));
  const auto* bytes = static_cast<const unsigned char*>(host);
  for (int round = 1; round <= kRounds; ++round) {
    PROBE_CALL(cudaMemsetAsync(device, round, kBytes, f.stream));
    PROBE_CALL(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, f.stream));
    PROBE_CALL(cuStreamWriteValue64(f.stream, Pointer(f.words), static_cast<uint64_t>(round), 0));
    PROBE_HOLDS(WordBecomes(f.words, static_cast<uint64_t>(round)), "the word was not written");
    PROBE_HOLDS(bytes[0] == round && bytes[kBytes / 2] == round && bytes[kBytes - 1] == round,
                "the word came before the copied bytes");
  }
  return Pass();
}

Outcome CopyAfterWord() {
  PROBE_PREPARE(f);
  constexpr size_t kBytes = 1 << 20;
  void* device = nullptr;
  void* host = nullptr;
  PROBE_CALL(cudaMalloc(&device, kBytes));
  PROBE_CALL(cudaHostAlloc(&host, kBytes, cudaHostAllocDefault));
  auto* bytes = static_cast<unsigned char*>(host);
  memset(host, 0, kBytes);
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(f.words), 1, kGeq));
  PROBE_CALL(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, f.stream));
  memset(host, 0x5a, kBytes);
  StoreWord(f.words, 1);
  PROBE_HOLDS(Finishes(f.stream), "the stream did not go on");
  memset(host, 0, kBytes);
  PROBE_CALL(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
  PROBE_HOLDS(bytes[0] == 0x5a && bytes[kBytes - 1] == 0x5a,
              "the copy read its source before the wait was over");
  return Pass();
}

Outcome WordWithoutHelp() {
  PROBE_PREPARE(f);
  void* device = nullptr;
  PROBE_CALL(cudaMalloc(&device, 4096));
  PROBE_CALL(cudaMemsetAsync(device, 1, 4096, f.stream));
  PROBE_CALL(cuStreamWriteValue64(f.stream, Pointer(f.words), 1, 0));
  PROBE_HOLDS(WordBecomes(f.words, 1), "nothing moves unless the program asks");
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(f.words + 8), 1, kGeq));
  PROBE_CALL(cuStreamWriteValue64(f.stream, Pointer(f.words), 2, 0));
  StoreWord(f.words + 8, 1);
  PROBE_HOLDS(WordBecomes(f.words, 2), "a released stream does not move unless asked");
  return Pass();
}

Outcome WordInDeviceMemory() {
  PROBE_PREPARE(f);
  void* device = nullptr;
  uint64_t value = 0;
  PROBE_CALL(cudaMalloc(&device, 4096));
  PROBE_CALL(cudaMemset(device, 0, 4096));
  PROBE_CALL(cudaDeviceSynchronize());
  PROBE_CALL(cuStreamWriteValue64(f.stream, Pointer(device) + 64, 77, 0));
  PROBE_CALL(cuStreamWaitValue64(f.stream, Pointer(device) + 64, 77, kGeq));
  PROBE_HOLDS(Finishes(f.stream), "the stream did not see its own write");
  PROBE_CALL(
      cudaMemcpy(&value, static_cast<char*>(device) + 64, sizeof(value), cudaMemcpyDeviceToHost));
  PROBE_HOLDS(value == 77, "the value is not in device memory");
  return Pass();
}

Outcome BatchOfWords() {
  PROBE_PREPARE(f);
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operations[0].waitValue.address = Pointer(f.words);
  operations[0].waitValue.value64 = 1;
  operations[0].waitValue.flags = kGeq;
  operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operations[1].writeValue.address = Pointer(f.words + 8);
  operations[1].writeValue.value64 = 5;
  PROBE_CALL(cuStreamBatchMemOp(f.stream, 2, operations, 0));
  PROBE_HOLDS(StaysBusy(f.stream), "the batch did not wait");
  StoreWord(f.words, 1);
  PROBE_HOLDS(Finishes(f.stream), "the batch was not released");
  PROBE_HOLDS(LoadWord(f.words + 8) == 5, "the batch's write is missing");
  return Pass();
}

Outcome UnknownMemoryRefused() {
  PROBE_PREPARE(f);
  static uint64_t stray[16];
  const CUresult result = cuStreamWriteValue64(f.stream, Pointer(&stray[1]), 1, 0);
  PROBE_HOLDS(result == CUDA_ERROR_INVALID_VALUE,
              "a word in memory that CUDA does not know was not refused as an invalid value");
  return Pass();
}

}  // namespace

std::vector<Check> WordChecks() {
  return {
      {"wait_before_signal", "a wait may be enqueued before the word is written", WaitBeforeSignal},
      {"wait_after_signal", "a wait for what is there already costs nothing", WaitAfterSignal},
      {"geq_wraps", "GEQ compares the signed difference of 64 bits", GeqWraps},
      {"geq_wraps_32", "and of 32 bits", GeqWraps32},
      {"poison_releases_waits", "one value releases every GEQ wait", PoisonReleases},
      {"other_comparisons", "EQ, AND and NOR compare as documented", OtherComparisons},
      {"word_after_copy", "a written word is seen after the bytes copied before it", WordAfterCopy},
      {"copy_after_word", "a copy behind a wait reads its source when the wait is over",
       CopyAfterWord},
      {"word_without_help", "streams go on while the program calls nothing", WordWithoutHelp},
      {"word_in_device_memory", "words may lie in device memory", WordInDeviceMemory},
      {"batch_of_words", "several word operations in one call", BatchOfWords},
      {"unknown_memory_refused", "a word must lie in memory that CUDA knows", UnknownMemoryRefused},
  };
}

}  // namespace mccs::probe
