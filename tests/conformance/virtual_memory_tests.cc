// Memory of CUDA's virtual memory functions: one range of addresses, mapped to many allocations
// that may change. PyTorch's expandable segments use this.
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace virtual_memory_tests {

// The driver's functions, looked up through the runtime: the program does not link the driver.
struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free_range = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemGetAddressRange) address_range = nullptr;
  decltype(&cuMemRetainAllocationHandle) retain = nullptr;
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties = nullptr;
  decltype(&cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&cuMemImportFromShareableHandle) import_handle = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
};

template <typename Function>
void Find(Test& t, const char* name, Function* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CUDA_OK(t, cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  EXPECT_THAT(t, found != nullptr, std::string("the driver to export ") + name);
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
  Find(t, "cuMemGetAddressRange", &driver.address_range);
  Find(t, "cuMemRetainAllocationHandle", &driver.retain);
  Find(t, "cuMemGetAllocationPropertiesFromHandle", &driver.properties);
  Find(t, "cuMemExportToShareableHandle", &driver.export_handle);
  Find(t, "cuMemImportFromShareableHandle", &driver.import_handle);
  Find(t, "cuDeviceGetAttribute", &driver.attribute);
  return driver;
}

#define DRIVER_OK(test, call) EXPECT_THAT(test, (call) == CUDA_SUCCESS, "CUDA_SUCCESS from " #call)

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
  // A test that ended early may have left running copies: the memory stays mapped.
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

CONFORMANCE_TEST(virtual_memory, a_buffer_over_several_mappings) {
  t.World();
  Segment segment(t, 3, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  for (size_t i = 0; i < 3; ++i) segment.Map(i);
  const size_t off = 1028;
  SumIn(t, segment.At(off), (3 * segment.piece_bytes() - off) / sizeof(int32_t), 1);
}

CONFORMANCE_TEST(virtual_memory, a_segment_that_grows) {
  t.World();
  Segment segment(t, 4, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  for (size_t pieces = 1; t.ok() && pieces <= 4; ++pieces) {
    segment.Map(pieces - 1);
    SumIn(t, segment.At(0), pieces * segment.piece_bytes() / sizeof(int32_t),
          static_cast<int32_t>(pieces));
  }
}

// The same addresses are mapped to other memory.
CONFORMANCE_TEST(virtual_memory, a_segment_that_is_remapped) {
  t.World();
  Segment segment(t, 2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  segment.Map(0);
  for (int i = 1; t.ok() && i <= 5; ++i) {
    segment.Map(1);
    SumIn(t, segment.At(0), 2 * segment.piece_bytes() / sizeof(int32_t), i);
    segment.Unmap(1);
  }
}

// ---- Memory of ncclMemAlloc --------------------------------------------------------------------

// A second mapping of the memory of a handle.
class SecondMapping {
 public:
  SecondMapping(Test& test, const Driver& driver, CUmemGenericAllocationHandle handle, size_t bytes)
      : test_(test), driver_(driver), bytes_(bytes) {
    DRIVER_OK(test_, driver_.reserve(&base_, bytes_, 0, 0, 0));
    DRIVER_OK(test_, driver_.map(base_, bytes_, 0, handle, 0));
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = test_.self().device};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER_OK(test_, driver_.set_access(base_, bytes_, &access, 1));
  }
  ~SecondMapping() {
    if (!test_.ok()) return;
    driver_.unmap(base_, bytes_);
    driver_.free_range(base_, bytes_);
  }
  SecondMapping(const SecondMapping&) = delete;
  SecondMapping& operator=(const SecondMapping&) = delete;

  int32_t* data() const { return reinterpret_cast<int32_t*>(base_); }

 private:
  Test& test_;
  const Driver& driver_;
  const size_t bytes_;
  CUdeviceptr base_ = 0;
};

// Skips on a GPU on which NCCL also has to return ordinary memory.
bool CanShareMemory(Test& t, const Driver& driver) {
  int memory = 0;
  int descriptors = 0;
  DRIVER_OK(t, driver.attribute(&memory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                t.self().device));
  DRIVER_OK(t, driver.attribute(&descriptors,
                                CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                t.self().device));
  const std::vector<int> all = t.ExchangeValues(memory != 0 && descriptors != 0 ? 1 : 0);
  const bool can = std::count(all.begin(), all.end(), 1) == t.size();
  if (t.ok() && !can) t.Skip("a GPU does not support sharing virtual memory by descriptors");
  return t.ok();
}

// Exports the handle as a descriptor and imports it again: the same memory.
CUmemGenericAllocationHandle PassOn(Test& t, const Driver& driver, void* memory) {
  CUmemGenericAllocationHandle own = 0;
  CUmemGenericAllocationHandle passed_on = 0;
  CUmemAllocationProp properties{};
  DRIVER_OK(t, driver.retain(&own, memory));
  DRIVER_OK(t, driver.properties(&properties, own));
  EXPECT_THAT(t, (properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0,
              "memory that can be shared by a descriptor");
  t.ExpectEqual(t.self().device, properties.location.id, "the GPU of the memory");
  int fd = -1;
  DRIVER_OK(t, driver.export_handle(&fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  DRIVER_OK(t, driver.import_handle(&passed_on, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  if (fd >= 0) close(fd);
  DRIVER_OK(t, driver.release(own));
  return passed_on;
}

// Results in memory of ncclMemAlloc are visible through the handle that a program shares, and vice
// versa. The handle keeps the memory after ncclMemFree.
CONFORMANCE_TEST(virtual_memory, mem_alloc_has_a_handle_to_share) {
  constexpr size_t kCount = 100'003;
  const auto [comm, stream] = OnWorld(t);
  const Driver driver = FindDriver(t);
  if (!CanShareMemory(t, driver)) return;
  void* memory = nullptr;
  NCCL_OK(t, ncclMemAlloc(&memory, kCount * sizeof(int32_t)));
  CUdeviceptr base = 0;
  size_t bytes = 0;
  DRIVER_OK(t, driver.address_range(&base, &bytes, reinterpret_cast<CUdeviceptr>(memory)));
  EXPECT_THAT(t, reinterpret_cast<void*>(base) == memory && bytes >= kCount * sizeof(int32_t),
              "one allocation that begins at its address");
  const CUmemGenericAllocationHandle handle = PassOn(t, driver, memory);
  const SecondMapping again(t, driver, handle, bytes);

  IntBuffer data(t, memory, kCount, stream);
  IntBuffer same(t, again.data(), kCount, stream);
  data.Fill(t.rank() + 1);
  NCCL_OK(t, ncclAllReduce(memory, memory, kCount, ncclInt32, ncclSum, comm, stream));
  same.Expect(SumOfRanks(t.size()), "the sum, read through the other mapping");
  same.Fill(2);
  NCCL_OK(t, ncclAllReduce(memory, memory, kCount, ncclInt32, ncclSum, comm, stream));
  data.Expect(2 * t.size(), "the sum of what was written there");
  NCCL_OK(t, ncclAllReduce(again.data(), again.data(), kCount, ncclInt32, ncclMax, comm, stream));
  data.Expect(2 * t.size(), "the maximum of equal values, in the other mapping");

  NCCL_OK(t, ncclMemFree(memory));
  CUmemGenericAllocationHandle gone = 0;
  EXPECT_THAT(t, driver.retain(&gone, memory) != CUDA_SUCCESS, "no handle of freed memory");
  same.Expect(2 * t.size(), "the data that the handle keeps");
  DRIVER_OK(t, driver.release(handle));
}

// Repeated allocation, use and free: reuse of an address is detected, and no memory leaks.
CONFORMANCE_TEST(virtual_memory, repeated_mem_alloc) {
  constexpr size_t kCount = 300'000;
  const auto [comm, stream] = OnWorld(t);
  size_t free_at_first = 0;
  size_t free_at_last = 0;
  size_t total = 0;
  for (int i = 1; t.ok() && i <= 30; ++i) {
    void* memory = nullptr;
    const size_t count = kCount * (1 + i % 3);
    NCCL_OK(t, ncclMemAlloc(&memory, count * sizeof(int32_t)));
    IntBuffer buffer(t, memory, count, stream);
    buffer.Fill(i);
    NCCL_OK(t, ncclAllReduce(memory, memory, count, ncclInt32, ncclSum, comm, stream));
    buffer.Expect(i * t.size(), "the sum");
    NCCL_OK(t, ncclMemFree(memory));
    if (i == 1) CUDA_OK(t, cudaMemGetInfo(&free_at_first, &total));
  }
  CUDA_OK(t, cudaMemGetInfo(&free_at_last, &total));
  EXPECT_THAT(t, free_at_last >= free_at_first, "freed memory to be free again");
}

CONFORMANCE_TEST(virtual_memory, one_mapping) {
  OneMapping(t, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CONFORMANCE_TEST(virtual_memory, one_mapping_that_cannot_be_shared) {
  OneMapping(t, CU_MEM_HANDLE_TYPE_NONE);
}

}  // namespace virtual_memory_tests
}  // namespace conformance
