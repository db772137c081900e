// Memory that CUDA's virtual memory functions make: one range of addresses, many allocations behind
// it, which may change. PyTorch's expandable segments are that.
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace {

// The driver's functions, found through the runtime: the program does not link the driver.
struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free_range = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
};

template <typename Function>
void Find(Test& t, const char* name, Function* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CUDA_OK(t, cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  EXPECT_THAT(t, found != nullptr, std::string("the driver to have ") + name);
  *function = reinterpret_cast<Function>(found);
}

Driver FindDriver(Test& t) {
  Driver driver;
  CUDA_OK(t, cudaFree(nullptr));
  Find(t, "cuMemGetAllocationGranularity", &driver.granularity);
  Find(t, "cuMemAddressReserve", &driver.reserve);
  Find(t, "cuMemAddressFree", &driver.free_range);
  Find(t, "cuMemCreate", &driver.create);
  Find(t, "cuMemRelease", &driver.release);
  Find(t, "cuMemMap", &driver.map);
  Find(t, "cuMemUnmap", &driver.unmap);
  Find(t, "cuMemSetAccess", &driver.set_access);
  return driver;
}

#define DRIVER_OK(test, call) EXPECT_THAT(test, (call) == CUDA_SUCCESS, "CUDA_SUCCESS of " #call)

// A range that grows and shrinks piece by piece.
class Segment {
 public:
  Segment(Test& test, size_t pieces, CUmemAllocationHandleType shared_as)
      : test_(test), driver_(FindDriver(test)) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties_.location.id = test.self().device;
    properties_.requestedHandleTypes = shared_as;
    DRIVER_OK(test_,
              driver_.granularity(&piece_bytes_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    handles_.resize(pieces);
    DRIVER_OK(test_, driver_.reserve(&base_, pieces * piece_bytes_, 0, 0, 0));
  }
  ~Segment() {
    if (!test_.ok()) return;
    for (size_t i = 0; i < handles_.size(); ++i) Unmap(i);
    if (base_ != 0) driver_.free_range(base_, handles_.size() * piece_bytes_);
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  size_t piece_bytes() const { return piece_bytes_; }
  int32_t* At(size_t byte) const { return reinterpret_cast<int32_t*>(base_ + byte); }

  void Map(size_t piece) {
    DRIVER_OK(test_, driver_.create(&handles_[piece], piece_bytes_, &properties_, 0));
    const CUdeviceptr at = base_ + piece * piece_bytes_;
    DRIVER_OK(test_, driver_.map(at, piece_bytes_, 0, handles_[piece], 0));
    CUmemAccessDesc access{};
    access.location = properties_.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER_OK(test_, driver_.set_access(at, piece_bytes_, &access, 1));
  }
  // A test that ended early may have left copies behind that still run: it keeps its memory.
  void Unmap(size_t piece) {
    if (!test_.ok() || handles_[piece] == 0) return;
    driver_.unmap(base_ + piece * piece_bytes_, piece_bytes_);
    driver_.release(handles_[piece]);
    handles_[piece] = 0;
  }

 private:
  Test& test_;
  const Driver driver_;
  CUmemAllocationProp properties_{};
  size_t piece_bytes_ = 0;
  CUdeviceptr base_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

void SumIn(Test& t, int32_t* data, size_t count, int32_t value) {
  cudaStream_t stream = t.NewStream();
  IntBuffer buffer(t, data, count, stream);
  buffer.Fill(value);
  NCCL_OK(t, ncclAllReduce(data, data, count, ncclInt32, ncclSum, t.World(), stream));
  buffer.Expect(value * t.size(), "the sum");
}

void OneMapping(Test& t, CUmemAllocationHandleType shared_as) {
  t.World();
  Segment segment(t, 1, shared_as);
  segment.Map(0);
  SumIn(t, segment.At(0), segment.piece_bytes() / sizeof(int32_t), 1);
}

void ABufferOverSeveralMappings(Test& t) {
  t.World();
  Segment segment(t, 3, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  for (size_t i = 0; i < 3; ++i) segment.Map(i);
  const size_t off = 1028;
  SumIn(t, segment.At(off), (3 * segment.piece_bytes() - off) / sizeof(int32_t), 1);
}

void ASegmentThatGrows(Test& t) {
  t.World();
  Segment segment(t, 4, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  for (size_t pieces = 1; t.ok() && pieces <= 4; ++pieces) {
    segment.Map(pieces - 1);
    SumIn(t, segment.At(0), pieces * segment.piece_bytes() / sizeof(int32_t),
          static_cast<int32_t>(pieces));
  }
}

// The same addresses, other memory behind them.
void ASegmentThatIsMappedAnew(Test& t) {
  t.World();
  Segment segment(t, 2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  segment.Map(0);
  for (int i = 1; t.ok() && i <= 5; ++i) {
    segment.Map(1);
    SumIn(t, segment.At(0), 2 * segment.piece_bytes() / sizeof(int32_t), i);
    segment.Unmap(1);
  }
}

}  // namespace

void AddVirtualMemoryTests(TestTable* table) {
  const TestGroup add(table, "virtual_memory");
  add("one_mapping", [](Test& t) { OneMapping(t, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR); });
  add("one_mapping_that_cannot_be_shared", [](Test& t) { OneMapping(t, CU_MEM_HANDLE_TYPE_NONE); });
  add("a_buffer_over_several_mappings", ABufferOverSeveralMappings);
  add("a_segment_that_grows", ASegmentThatGrows);
  add("a_segment_that_is_mapped_anew", ASegmentThatIsMappedAnew);
}

}  // namespace conformance
