// Streams that write words and wait for them.

#include "emulation/driver/entry.h"
#include "proto/fence_page.h"

using mccs::emulation::Comparison;
using mccs::emulation::OwnStream;
using mccs::emulation::Region;
using mccs::emulation::Session;
using mccs::emulation::Stream;
using mccs::emulation::WaitWord;
using mccs::emulation::Word;
using mccs::emulation::Work;
using mccs::emulation::WriteWord;

namespace {

constexpr unsigned kMaxBatch = 256;

// Checks that a GPU may reach the word and finds out whether it is a fence's.
CUresult FindWord(const Session& session, CUdeviceptr address, bool wide, Word* word) {
  const size_t bytes = wide ? sizeof(uint64_t) : sizeof(uint32_t);
  if (address % bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Region> region = session.process->memory.Find(address);
  if (!region || !region->Contains(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  word->address = reinterpret_cast<void*>(address);
  word->wide = wide;
  const size_t offset = address - region->base;
  word->fence = region->fence_page && wide && offset >= sizeof(mccs::wire::FencePageHeader) &&
                offset % sizeof(mccs::wire::FenceLine) == 0 &&
                region->Contains(address, sizeof(mccs::wire::FenceLine));
  return CUDA_SUCCESS;
}

CUresult MakeWrite(const Session& session, CUdeviceptr address, uint64_t value, bool wide,
                   unsigned flags, Work* work) {
  // Without the barrier earlier writes might come later than the word; ours never do.
  if ((flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WriteWord write;
  write.value = value;
  const CUresult result = FindWord(session, address, wide, &write.word);
  *work = write;
  return result;
}

CUresult MakeWait(const Session& session, CUdeviceptr address, uint64_t value, bool wide,
                  unsigned flags, Work* work) {
  constexpr unsigned kComparisons = 0x3;
  if ((flags & ~(kComparisons | unsigned{CU_STREAM_WAIT_VALUE_FLUSH})) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  static_assert(CU_STREAM_WAIT_VALUE_GEQ == 0 && CU_STREAM_WAIT_VALUE_EQ == 1 &&
                CU_STREAM_WAIT_VALUE_AND == 2 && CU_STREAM_WAIT_VALUE_NOR == 3);
  constexpr Comparison kByFlag[] = {Comparison::kGreaterOrEqual, Comparison::kEqual,
                                    Comparison::kAnd, Comparison::kNor};
  WaitWord wait;
  wait.value = value;
  wait.comparison = kByFlag[flags & kComparisons];
  const CUresult result = FindWord(session, address, wide, &wait.word);
  *work = wait;
  return result;
}

CUresult MakeFromBatch(const Session& session, const CUstreamBatchMemOpParams& operation,
                       Work* work) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return MakeWait(session, operation.waitValue.address, operation.waitValue.value, false,
                      operation.waitValue.flags, work);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return MakeWait(session, operation.waitValue.address, operation.waitValue.value64, true,
                      operation.waitValue.flags, work);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return MakeWrite(session, operation.writeValue.address, operation.writeValue.value, false,
                       operation.writeValue.flags, work);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return MakeWrite(session, operation.writeValue.address, operation.writeValue.value64, true,
                       operation.writeValue.flags, work);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      *work = mccs::emulation::Join{};
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

template <typename Make>
CUresult Submit(CUstream stream, Make make) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Work work;
  if (const CUresult result = make(session, &work); result != CUDA_SUCCESS) return result;
  session.process->engine.Enqueue(found, std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  return Submit(stream, [=](const Session& session, Work* work) {
    return MakeWrite(session, address, value, false, flags, work);
  });
}
MCCS_PER_THREAD(cuStreamWriteValue32, ptsz,
                (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),
                OwnStream(stream), address, value, flags)

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags) {
  return Submit(stream, [=](const Session& session, Work* work) {
    return MakeWrite(session, address, value, true, flags, work);
  });
}
MCCS_PER_THREAD(cuStreamWriteValue64, ptsz,
                (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
                OwnStream(stream), address, value, flags)

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  return Submit(stream, [=](const Session& session, Work* work) {
    return MakeWait(session, address, value, false, flags, work);
  });
}
MCCS_PER_THREAD(cuStreamWaitValue32, ptsz,
                (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),
                OwnStream(stream), address, value, flags)

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags) {
  return Submit(stream, [=](const Session& session, Work* work) {
    return MakeWait(session, address, value, true, flags, work);
  });
}
MCCS_PER_THREAD(cuStreamWaitValue64, ptsz,
                (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
                OwnStream(stream), address, value, flags)

// All operations are checked before the first is enqueued.
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
                            CUstreamBatchMemOpParams* operations, unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  if (count > kMaxBatch || (count > 0 && operations == nullptr) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<Work> works(count);
  for (unsigned i = 0; i < count; ++i) {
    const CUresult result = MakeFromBatch(session, operations[i], &works[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  for (Work& work : works) session.process->engine.Enqueue(found, std::move(work));
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamBatchMemOp, ptsz,
                (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                 unsigned int flags),
                OwnStream(stream), count, operations, flags)

}  // extern "C"

// The first form of these functions, of before CUDA 12, takes the same parameters.
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamBatchMemOp
extern "C" {

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  return cuStreamWriteValue32_v2(stream, address, value, flags);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags) {
  return cuStreamWriteValue64_v2(stream, address, value, flags);
}
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  return cuStreamWaitValue32_v2(stream, address, value, flags);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags) {
  return cuStreamWaitValue64_v2(stream, address, value, flags);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
                            CUstreamBatchMemOpParams* operations, unsigned int flags) {
  return cuStreamBatchMemOp_v2(stream, count, operations, flags);
}

}  // extern "C"
