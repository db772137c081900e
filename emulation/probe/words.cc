// Words that streams write and wait for.

#include <cstring>

#include "emulation/probe/probe.h"
#include "proto/fence_page.h"

namespace mccs::probe {
namespace {

PROBE_CHECK(wait_before_signal, "a wait may be enqueued before the word is written") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 7, kGeq));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words + 8), 1, 0));
  PROBE_EXPECT(StaysBusy(stream), "the stream did not wait");
  PROBE_EXPECT(LoadWord(words + 8) == 0, "the write overtook the wait");
  StoreWord(words, 7);
  PROBE_EXPECT(Finishes(stream), "the store did not release the stream");
  PROBE_EXPECT(LoadWord(words + 8) == 1, "the write behind the wait is missing");
  return Pass();
}

PROBE_CHECK(wait_after_signal, "a satisfied wait does not block") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  StoreWord(words, 9);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 7, kGeq));
  PROBE_EXPECT(Finishes(stream), "a satisfied wait blocked the stream");
  return Pass();
}

// Checks whether a stream passes a wait for `value` if the word is `word`.
Outcome Expect(uint64_t word, uint64_t value, unsigned flags, bool passes, const char* text) {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  StoreWord(words, word);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), value, flags));
  const bool passed = passes ? Finishes(stream) : !StaysBusy(stream);
  StoreWord(words, flags == kGeq ? value : 1);
  PROBE_EXPECT(passed == passes, text);
  return Pass();
}

PROBE_CHECK(geq_wraps, "GEQ compares the signed difference of 64 bits") {
  const uint64_t before_wrap = ~uint64_t{0} - 9;
  PROBE_PASSES(Expect(5, before_wrap, kGeq, true, "5 does not count as after 2^64-10"));
  PROBE_PASSES(Expect(before_wrap, 5, kGeq, false, "2^64-10 counts as after 5"));
  PROBE_PASSES(Expect(4, 5, kGeq, false, "4 counts as after 5"));
  return Pass();
}

PROBE_CHECK(geq_wraps_32, "GEQ compares the signed difference of 32 bits") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  auto* narrow = reinterpret_cast<uint32_t*>(words);
  narrow[0] = 5;
  PROBE_CALL(cuStreamWaitValue32(stream, Pointer(narrow), 0xfffffff0u, kGeq));
  PROBE_EXPECT(Finishes(stream), "5 does not count as after 2^32-16");
  return Pass();
}

PROBE_CHECK(poison_releases_waits, "one value releases every GEQ wait") {
  const uint64_t targets[] = {1, uint64_t{1} << 32, (uint64_t{1} << 62) - 1};
  for (const uint64_t target : targets) {
    PROBE_PASSES(Expect(wire::kFencePoison, target, kGeq, true, "poison did not release a wait"));
  }
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1000, kGeq));
  PROBE_EXPECT(StaysBusy(stream), "the stream did not wait");
  StoreWord(words, wire::kFencePoison);
  PROBE_EXPECT(Finishes(stream), "poison did not release a waiting stream");
  return Pass();
}

PROBE_CHECK(other_comparisons, "EQ, AND and NOR compare as documented") {
  PROBE_PASSES(Expect(3, 3, CU_STREAM_WAIT_VALUE_EQ, true, "3 == 3 did not pass"));
  PROBE_PASSES(Expect(6, 2, CU_STREAM_WAIT_VALUE_AND, true, "6 & 2 did not pass"));
  PROBE_PASSES(Expect(1, 2, CU_STREAM_WAIT_VALUE_NOR, true, "~(1 | 2) did not pass"));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  StoreWord(words, 4);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 3, CU_STREAM_WAIT_VALUE_EQ));
  PROBE_EXPECT(StaysBusy(stream), "4 == 3 passed");
  StoreWord(words, 3);
  PROBE_EXPECT(Finishes(stream), "3 == 3 did not release the stream");
  return Pass();
}

PROBE_CHECK(word_after_copy, "a written word is visible after the bytes copied before it") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  constexpr size_t kBytes = 4 << 20;
  constexpr int kRounds = 50;
  PROBE_DEVICE_MEMORY(device, kBytes);
  PROBE_PINNED_MEMORY(host, kBytes);
  const auto* bytes = static_cast<const unsigned char*>(host);
  for (int round = 1; round <= kRounds; ++round) {
    PROBE_CALL(cudaMemsetAsync(device, round, kBytes, stream));
    PROBE_CALL(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, stream));
    PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words), static_cast<uint64_t>(round), 0));
    PROBE_EXPECT(WordBecomes(words, static_cast<uint64_t>(round)), "the word was not written");
    PROBE_EXPECT(bytes[0] == round && bytes[kBytes / 2] == round && bytes[kBytes - 1] == round,
                 "the word was visible before the copied bytes");
  }
  return Pass();
}

PROBE_CHECK(copy_after_word, "a copy after a wait reads its source when the wait has ended") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  constexpr size_t kBytes = 1 << 20;
  PROBE_DEVICE_MEMORY(device, kBytes);
  PROBE_PINNED_MEMORY(host, kBytes);
  auto* bytes = static_cast<unsigned char*>(host);
  memset(host, 0, kBytes);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
  memset(host, 0x5a, kBytes);
  StoreWord(words, 1);
  PROBE_EXPECT(Finishes(stream), "the stream did not continue");
  memset(host, 0, kBytes);
  PROBE_CALL(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
  PROBE_EXPECT(bytes[0] == 0x5a && bytes[kBytes - 1] == 0x5a,
               "the copy read its source before the wait ended");
  return Pass();
}

PROBE_CHECK(word_without_calls, "streams continue while the program calls nothing") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  PROBE_DEVICE_MEMORY(device, 4096);
  PROBE_CALL(cudaMemsetAsync(device, 1, 4096, stream));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words), 1, 0));
  PROBE_EXPECT(WordBecomes(words, 1), "work runs only while the program calls CUDA");
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words + 8), 1, kGeq));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words), 2, 0));
  StoreWord(words + 8, 1);
  PROBE_EXPECT(WordBecomes(words, 2),
               "a released stream continues only while the program calls CUDA");
  return Pass();
}

PROBE_CHECK(word_in_device_memory, "words may lie in device memory") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  uint64_t value = 0;
  PROBE_DEVICE_MEMORY(device, 4096);
  PROBE_CALL(cudaMemset(device, 0, 4096));
  PROBE_CALL(cudaDeviceSynchronize());
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(device) + 64, 77, 0));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(device) + 64, 77, kGeq));
  PROBE_EXPECT(Finishes(stream), "the stream's wait did not see its own write");
  PROBE_CALL(
      cudaMemcpy(&value, static_cast<char*>(device) + 64, sizeof(value), cudaMemcpyDeviceToHost));
  PROBE_EXPECT(value == 77, "the value is not in device memory");
  return Pass();
}

PROBE_CHECK(batch_of_words, "several word operations in one call") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_WORDS(words, 64);
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operations[0].waitValue.address = Pointer(words);
  operations[0].waitValue.value64 = 1;
  operations[0].waitValue.flags = kGeq;
  operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operations[1].writeValue.address = Pointer(words + 8);
  operations[1].writeValue.value64 = 5;
  PROBE_CALL(cuStreamBatchMemOp(stream, 2, operations, 0));
  PROBE_EXPECT(StaysBusy(stream), "the batch did not wait");
  StoreWord(words, 1);
  PROBE_EXPECT(Finishes(stream), "the batch was not released");
  PROBE_EXPECT(LoadWord(words + 8) == 5, "the batch's write is missing");
  return Pass();
}

PROBE_CHECK(unknown_memory_rejected, "a word must be in memory that CUDA knows") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  static uint64_t stray[16];
  const CUresult result = cuStreamWriteValue64(stream, Pointer(&stray[1]), 1, 0);
  PROBE_EXPECT(result == CUDA_ERROR_INVALID_VALUE,
               "a word in memory that CUDA does not know was not rejected as an invalid value");
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
