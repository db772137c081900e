// Stream memory operations: streams write words and wait for them.

#include <utility>

#include "emulation/driver/work_requests.h"
#include "proto/fence_page.h"

namespace mccs::emulation {

// cuda.h maps these names to their second version; this file defines both versions by their own
// names.
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamBatchMemOp

namespace {

constexpr unsigned kMaxBatch = 256;

// A word to write or to wait for.
struct WordOperation {
  CUdeviceptr address;
  uint64_t value;
  bool wide;  // 64 bits, not 32
  unsigned flags;
};

// Checks that a GPU can access the word, and whether the word is a fence's.
CUresult FindWord(const CallContext& session, const WordOperation& operation, Word* word) {
  const CUdeviceptr address = operation.address;
  const size_t bytes = operation.wide ? sizeof(uint64_t) : sizeof(uint32_t);
  if (address % bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Region> region = session.process->memory.Find(address);
  if (!region || !session.process->memory.IsKnown(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  word->address = reinterpret_cast<void*>(address);
  word->wide = operation.wide;
  const size_t offset = address - region->base;
  word->fence = region->fence_page && operation.wide &&
                offset >= sizeof(mccs::wire::FencePageHeader) &&
                offset % sizeof(mccs::wire::FenceLine) == 0 &&
                region->Contains(address, sizeof(mccs::wire::FenceLine));
  return CUDA_SUCCESS;
}

CUresult MakeWrite(const CallContext& session, const WordOperation& operation, Work* work) {
  // Without the barrier, earlier writes may become visible after the word; here they never do.
  if ((operation.flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WriteWord write;
  write.value = operation.value;
  const CUresult result = FindWord(session, operation, &write.word);
  *work = write;
  return result;
}

CUresult MakeWait(const CallContext& session, const WordOperation& operation, Work* work) {
  constexpr unsigned kComparisons = 0x3;
  if ((operation.flags & ~(kComparisons | unsigned{CU_STREAM_WAIT_VALUE_FLUSH})) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  static_assert(CU_STREAM_WAIT_VALUE_GEQ == 0 && CU_STREAM_WAIT_VALUE_EQ == 1 &&
                CU_STREAM_WAIT_VALUE_AND == 2 && CU_STREAM_WAIT_VALUE_NOR == 3);
  constexpr Comparison kByFlag[] = {Comparison::kGreaterOrEqual, Comparison::kEqual,
                                    Comparison::kAnd, Comparison::kNor};
  WaitWord wait;
  wait.value = operation.value;
  wait.comparison = kByFlag[operation.flags & kComparisons];
  const CUresult result = FindWord(session, operation, &wait.word);
  *work = wait;
  return result;
}

// `parameters`: the writeValue or waitValue of one operation of a batch.
template <typename Parameters>
WordOperation Narrow(const Parameters& parameters) {
  return {parameters.address, parameters.value, false, parameters.flags};
}
template <typename Parameters>
WordOperation Wide(const Parameters& parameters) {
  return {parameters.address, parameters.value64, true, parameters.flags};
}

CUresult MakeOperation(const CallContext& session, const CUstreamBatchMemOpParams& operation,
                       Work* work) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return MakeWait(session, Narrow(operation.waitValue), work);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return MakeWait(session, Wide(operation.waitValue), work);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return MakeWrite(session, Narrow(operation.writeValue), work);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return MakeWrite(session, Wide(operation.writeValue), work);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      *work = Join{};
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUstreamBatchMemOpParams AsBatch(CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                                 unsigned flags) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue = {type, address, {}, flags, 0};
  operation.writeValue.value64 = value;
  static_assert(sizeof(operation.writeValue) == sizeof(operation.waitValue));
  return operation;
}

CUresult Submit(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                unsigned flags) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUstreamBatchMemOpParams operation = AsBatch(type, address, value, flags);
  Work work;
  const CUresult result = MakeOperation(session, operation, &work);
  if (result != CUDA_SUCCESS) return result;
  const auto captured = session.process->graphs.AddNodeIfCapturing(*found, [&] {
    return WordOperations{{work}, {operation}};
  });
  if (captured) return *captured;
  session.process->engine.Enqueue(found, std::move(work));
  return CUDA_SUCCESS;
}

// All operations are checked before the first is enqueued.
CUresult SubmitBatch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* operations,
                     unsigned flags) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  WordOperations batch;
  const CUresult result = MakeWordOperations(session, count, operations, flags, &batch);
  if (result != CUDA_SUCCESS) return result;
  const auto captured =
      session.process->graphs.AddNodeIfCapturing(*found, [&] { return std::move(batch); });
  if (captured) return *captured;
  for (Work& work : batch.works) session.process->engine.Enqueue(found, std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult MakeWatch(const CallContext& session, CUdeviceptr address, uint64_t value,
                   WaitWord* watch) {
  watch->value = value;
  watch->comparison = Comparison::kGreaterOrEqual;
  watch->detached = true;
  return FindWord(session, {address, value, true, 0}, &watch->word);
}

CUresult MakeWordOperations(const CallContext& session, unsigned count,
                            const CUstreamBatchMemOpParams* requested, unsigned flags,
                            WordOperations* operations) {
  if (count > kMaxBatch || (count > 0 && requested == nullptr) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  operations->works.resize(count);
  if (count > 0) operations->requested.assign(requested, requested + count);
  for (unsigned i = 0; i < count; ++i) {
    const CUresult result = MakeOperation(session, requested[i], &operations->works[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// Defines a function under all its names: the second version with its per-thread variant, and the
// first version, from before CUDA 12, with the same parameters.
#define MCCS_BOTH_FORMS(name, call, ...)         \
  MCCS_STREAM_CALL(name##_v2, call, __VA_ARGS__) \
  extern "C" __attribute__((alias(#name "_v2"))) decltype(name##_v2) name

MCCS_BOTH_FORMS(cuStreamWriteValue32,
                Submit(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags),
                CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags);
MCCS_BOTH_FORMS(cuStreamWriteValue64,
                Submit(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags),
                CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags);
MCCS_BOTH_FORMS(cuStreamWaitValue32,
                Submit(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags),
                CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags);
MCCS_BOTH_FORMS(cuStreamWaitValue64,
                Submit(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags),
                CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags);
MCCS_BOTH_FORMS(cuStreamBatchMemOp, SubmitBatch(stream, count, operations, flags), CUstream stream,
                unsigned int count, CUstreamBatchMemOpParams* operations, unsigned int flags);

}  // namespace mccs::emulation
