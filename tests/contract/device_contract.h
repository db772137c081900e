// The contract of Device, as tests. A program includes this file, defines a world and instantiates
// DeviceContract with it.
#ifndef MCCS_TESTS_CONTRACT_DEVICE_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_DEVICE_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/device/device.h"
#include "service/device/memory_mapper.h"

namespace mccs {

// A device and a tenant process with memory on it.
class DeviceWorld {
 public:
  // The message with which a tenant exports an allocation.
  struct TenantBuffer {
    std::array<uint8_t, wire::kIpcHandleBytes> handle;
    size_t bytes;
    pid_t owner;

    BufferExport Offer() const {
      return {.handle = handle, .fd = UniqueFd(), .bytes = bytes, .owner = owner};
    }
  };

  virtual ~DeviceWorld() = default;
  virtual Device& device() = 0;
  virtual TenantBuffer AllocateAsTenant(size_t bytes) = 0;
  // Creates a tenant's allocation as a descriptor that can be mapped in a range.
  virtual UniqueFd AllocateAsDescriptor(size_t bytes) = 0;
  // Copy between host memory and device memory. REQUIRES: no operation is running.
  virtual void Write(std::byte* device_address, std::span<const std::byte> from) = 0;
  virtual void Read(std::span<std::byte> to, const std::byte* device_address) = 0;
  // Reads the tenant's own mapping of its allocation.
  virtual void ReadAsTenant(std::span<std::byte> to, const TenantBuffer& buffer) = 0;
  // The next operation fails with this error. Only for DeviceErrorContract.
  virtual void FailNext(const absl::Status& error) = 0;

  // Of the two local ranks of a plan, if the device runs plans in kernels.
  virtual std::span<const KernelCall> kernels() { return {}; }
  // After a Poll of device and plan that moved nothing: only lanes can make the plan move.
  virtual bool Settled(const DevicePlan& plan) { return plan.quiescent(); }
};

struct DeviceWorldMaker {
  std::string name;
  std::function<std::unique_ptr<DeviceWorld>()> make;
};

class DeviceContract : public testing::TestWithParam<DeviceWorldMaker> {
 protected:
  static constexpr int64_t kMaxPolls = 2'000'000'000;

  Device& device() { return world_->device(); }

  std::unique_ptr<Region> Allocate(size_t bytes) {
    absl::StatusOr<std::unique_ptr<Region>> memory = device().Allocate(bytes);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return *std::move(memory);
  }

  // Polls the device's mapper until `done` holds.
  void PollMapperUntil(const std::function<bool()>& done) {
    for (int64_t polls = 0; !done() && polls < kMaxPolls; ++polls) {
      if (!device().mapper().Poll()) std::this_thread::yield();
    }
    ASSERT_TRUE(done());
  }
  absl::StatusOr<std::unique_ptr<Region>> Import(BufferExport offer) {
    const auto pending = device().mapper().Import({"blue", 7}, std::move(offer));
    PollMapperUntil([&] { return pending->ready(); });
    if (!pending->status.ok()) return pending->status;
    return std::move(pending->memory);
  }

  // Floats in device memory, counting upward from `first`.
  std::unique_ptr<Region> Numbers(size_t count, float first) {
    std::vector<float> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = first + static_cast<float>(i % 1000);
    auto memory = Allocate(count * sizeof(float));
    world_->Write(memory->address(), std::as_bytes(std::span(numbers)));
    return memory;
  }

  std::vector<float> ReadFloats(const Region& memory, size_t count) {
    std::vector<float> numbers(count);
    world_->Read(std::as_writable_bytes(std::span(numbers)), memory.address());
    return numbers;
  }

  // Submits, polling while the queue is full. Counts completed tokens in `returned_`, as PollOnce.
  void Submit(const MemOp& op, MemToken token) {
    for (int64_t i = 0; i < kMaxPolls && !TrySubmit(op, token); ++i) PollOnce();
  }

  // False: the queue is full.
  bool TrySubmit(const MemOp& op, MemToken token) {
    const Device::Submitted submitted = device().Submit(op, token);
    if (submitted == Device::Submitted::kFinished) ++returned_[token];
    return submitted != Device::Submitted::kQueueFull;
  }

  void PollOnce() {
    std::array<Device::Finished, 4> finished;
    const size_t count = device().Poll(finished).finished;
    for (size_t i = 0; i < count; ++i) {
      ++returned_[finished[i].token];
      if (finished[i].error != nullptr) errors_[finished[i].token] = *finished[i].error;
    }
  }

  void PollUntil(size_t tokens) {
    for (int64_t i = 0; i < kMaxPolls && returned_.size() < tokens; ++i) PollOnce();
  }

  // Runs the only operation of a test.
  void Run(const MemOp& op) {
    Submit(op, 1);
    PollUntil(1);
  }

  // `b` is scaled by a half and added to `a`.
  void ExpectHalfOfSecond(std::function<void(MemSource*)> set_scale) {
    const auto a = Numbers(3, 1), b = Numbers(3, 10);
    MemSource sources[] = {{.address = a->address()}, {.address = b->address(), .scaled = true}};
    set_scale(&sources[1]);
    std::byte* const destinations[] = {a->address()};
    Run({.sources = sources,
         .destinations = destinations,
         .elements = 3,
         .type = DataType::kFloat32,
         .op = ReduceOp::kSum});
    EXPECT_EQ(ReadFloats(*a, 3), (std::vector<float>{6.0f, 7.5f, 9.0f}));
  }

  static constexpr size_t kChunk = size_t{1} << 20;
  BufferExport ChunkOffer() { return ChunkOffer(world_->AllocateAsDescriptor(kChunk), kChunk); }
  static BufferExport ChunkOffer(UniqueFd fd, uint64_t bytes) {
    return {
        .kind = wire::ExportKind::kFileDescriptor, .fd = std::move(fd), .bytes = bytes, .owner = 7};
  }
  // The chunk at that address is memory of its own; marks it as used.
  void ExpectUnused(std::byte* chunk) {
    std::byte first{1};
    world_->Read(std::span(&first, 1), chunk);
    EXPECT_EQ(first, std::byte{0});
    first = std::byte{9};
    world_->Write(chunk, std::span(&first, 1));
  }

  std::unique_ptr<DeviceWorld> world_ = GetParam().make();
  std::map<MemToken, int> returned_;
  std::map<MemToken, absl::Status> errors_;
};

inline constexpr size_t kSmallFloats = 3;
inline constexpr size_t kLargeFloats = 100'003;

TEST_P(DeviceContract, ReducesAllSourcesIntoAllDestinations) {
  for (const size_t count : {kSmallFloats, kLargeFloats}) {
    const auto a = Numbers(count, 1), b = Numbers(count, 2), c = Numbers(count, 3);
    const auto out = Allocate(count * sizeof(float));
    const MemSource sources[] = {
        {.address = a->address()}, {.address = b->address()}, {.address = c->address()}};
    std::byte* const destinations[] = {a->address(), out->address()};  // one in place
    Submit({.sources = sources,
            .destinations = destinations,
            .elements = count,
            .type = DataType::kFloat32,
            .op = ReduceOp::kSum},
           count);
    PollUntil(count == kSmallFloats ? 1 : 2);
    for (const Region* result : {a.get(), out.get()}) {
      const std::vector<float> sums = ReadFloats(*result, count);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(sums[i], 6 + 3 * static_cast<float>(i % 1000)) << "element " << i;
      }
    }
  }
}

TEST_P(DeviceContract, AppliesAScaleToItsSourceOnly) {
  const float half = 0.5f;
  ExpectHalfOfSecond(
      [&](MemSource* source) { std::memcpy(&source->scale_bits, &half, sizeof(half)); });
}

TEST_P(DeviceContract, ReadsAScaleOnTheDeviceAtAnyAlignment) {
  const float half = 0.5f;
  const auto scale = Allocate(64);
  world_->Write(scale->address() + 3, std::as_bytes(std::span(&half, 1)));
  ExpectHalfOfSecond([&](MemSource* source) { source->scale_address = scale->address() + 3; });
}

TEST_P(DeviceContract, DividesAnIntegerSumTowardsZero) {
  const int32_t numbers[] = {-7, 7, 5};
  const auto a = Allocate(sizeof(numbers));
  world_->Write(a->address(), std::as_bytes(std::span(numbers)));
  const MemSource sources[] = {
      {.address = a->address()}, {.address = a->address()}, {.address = a->address()}};
  std::byte* const destinations[] = {a->address()};
  Run({.sources = sources,
       .destinations = destinations,
       .elements = 3,
       .type = DataType::kInt32,
       .op = ReduceOp::kSum,
       .finish = Finish::kDivide,
       .divisor = 2});
  int32_t results[3];
  world_->Read(std::as_writable_bytes(std::span(results)), a->address());
  EXPECT_EQ(std::vector<int32_t>(results, results + 3), (std::vector<int32_t>{-10, 10, 7}));
}

TEST_P(DeviceContract, OneSourceIsACopyOfTheSameBits) {
  const auto from = Numbers(kLargeFloats, 5);
  const auto to = Allocate(kLargeFloats * sizeof(float));
  const MemSource sources[] = {{.address = from->address()}};
  std::byte* const destinations[] = {to->address()};
  Run({.sources = sources,
       .destinations = destinations,
       .elements = kLargeFloats * 4,
       .type = DataType::kFloat8e4m3,
       .op = ReduceOp::kMax,
       .stream = true});
  EXPECT_EQ(ReadFloats(*to, kLargeFloats), ReadFloats(*from, kLargeFloats));
}

TEST_P(DeviceContract, AnEmptyOperationFinishes) {
  const auto a = Allocate(64);
  const MemSource sources[] = {{.address = a->address()}};
  std::byte* const destinations[] = {a->address()};
  Submit({.sources = sources, .destinations = destinations}, 9);
  PollUntil(1);
  EXPECT_EQ(returned_[9], 1);
}

// Many operations, large and small mixed, more than the queue holds.
TEST_P(DeviceContract, EveryTokenIsReturnedExactlyOnce) {
  constexpr size_t kOps = 3000;
  const auto a = Numbers(kLargeFloats, 1);
  std::vector<std::unique_ptr<Region>> outs;
  for (int i = 0; i < 16; ++i) outs.push_back(Allocate(kLargeFloats * sizeof(float)));
  const std::vector<MemSource> sources(2, MemSource{.address = a->address()});
  std::vector<std::array<std::byte*, 1>> destinations(kOps);
  for (size_t i = 0; i < kOps; ++i) {
    destinations[i] = {outs[i % outs.size()]->address() + (i / outs.size()) % 200 * 512};
    const size_t elements = i % 64 == 0 ? 40'000 : 128;
    const MemOp op{.sources = sources,
                   .destinations = destinations[i],
                   .elements = elements,
                   .type = DataType::kFloat32,
                   .op = ReduceOp::kSum};
    Submit(op, i);
    if (i % 64 == 0) PollUntil(i + 1);  // a large one must not overlap another one's destination
  }
  PollUntil(kOps);
  ASSERT_EQ(returned_.size(), kOps);
  for (const auto& [token, times] : returned_) ASSERT_EQ(times, 1) << "token " << token;
  std::array<Device::Finished, 4> none;
  EXPECT_EQ(device().Poll(none).finished, 0u);
}

TEST_P(DeviceContract, AFullQueueRejectsAndRecovers) {
  constexpr size_t kElements = 20'000;  // more than a device completes inside Submit
  constexpr size_t kMost = 300;         // more than a queue holds
  const auto a = Numbers(kElements, 1);
  const auto out = Allocate(kMost * kElements * sizeof(float));
  const MemSource sources[] = {{.address = a->address()}};
  std::vector<std::array<std::byte*, 1>> destinations(kMost);
  for (size_t i = 0; i < kMost; ++i) {
    destinations[i] = {out->address() + i * kElements * sizeof(float)};
  }
  const auto copy = [&](size_t i) {
    return MemOp{.sources = sources,
                 .destinations = destinations[i],
                 .elements = kElements,
                 .type = DataType::kFloat32};
  };
  size_t submitted = 0;
  while (submitted < kMost && TrySubmit(copy(submitted), submitted)) ++submitted;
  // A device that completes each operation at once has no queue.
  ASSERT_TRUE(submitted < kMost || returned_.size() == kMost) << "the queue has no bound";
  PollUntil(submitted);
  EXPECT_EQ(returned_.size(), submitted);
  EXPECT_TRUE(TrySubmit(copy(0), kMost));
  PollUntil(submitted + 1);
  EXPECT_EQ(returned_[kMost], 1);
}

TEST_P(DeviceContract, LargeOperationsInFlightTogetherAllArrive) {
  constexpr size_t kOps = 24;
  std::vector<std::unique_ptr<Region>> in, out;
  std::vector<std::array<MemSource, 2>> sources(kOps);
  std::vector<std::array<std::byte*, 1>> destinations(kOps);
  const auto ones = Numbers(kLargeFloats, 1);
  for (size_t k = 0; k < kOps; ++k) {
    in.push_back(Numbers(kLargeFloats, static_cast<float>(k)));
    out.push_back(Allocate(kLargeFloats * sizeof(float)));
    sources[k] = {MemSource{.address = in[k]->address()}, MemSource{.address = ones->address()}};
    destinations[k] = {out[k]->address()};
    Submit({.sources = sources[k],
            .destinations = destinations[k],
            .elements = kLargeFloats,
            .type = DataType::kFloat32,
            .op = ReduceOp::kSum,
            .stream = k % 2 == 0},
           k);
  }
  PollUntil(kOps);
  for (size_t k = 0; k < kOps; ++k) {
    const std::vector<float> sums = ReadFloats(*out[k], kLargeFloats);
    for (size_t i = 0; i < kLargeFloats; ++i) {
      ASSERT_EQ(sums[i], static_cast<float>(k + 1 + 2 * (i % 1000))) << "operation " << k;
    }
  }
}

TEST_P(DeviceContract, AllocatedMemoryStartsOnAPage) {
  const auto memory = Allocate(100);
  EXPECT_GE(memory->bytes(), 100u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->address()) % 4096, 0u);
}

TEST_P(DeviceContract, DiscardingMemoryKeepsItsNeighbors) {
  constexpr size_t kPage = 4096;
  const auto memory = Allocate(4 * kPage);
  const std::vector<std::byte> ones(4 * kPage, std::byte{1});
  world_->Write(memory->address(), ones);
  device().Discard(
      {memory->address() + kPage - 1, kPage + 2});  // one page, and parts of its neighbors
  device().Discard({memory->address(), 0});
  std::vector<std::byte> now(4 * kPage);
  world_->Read(now, memory->address());
  for (const size_t at : {size_t{0}, kPage - 2, 2 * kPage + 1, 4 * kPage - 1}) {
    EXPECT_EQ(now[at], std::byte{1}) << "byte " << at;
  }
  device().Discard({memory->address(), 4 * kPage});
  world_->Write(memory->address(), ones);
  world_->Read(now, memory->address());
  EXPECT_EQ(now, ones);
}

TEST_P(DeviceContract, WorksOnATenantsMemoryInPlace) {
  const DeviceWorld::TenantBuffer buffer = world_->AllocateAsTenant(8192);
  absl::StatusOr<std::unique_ptr<Region>> imported = Import(buffer.Offer());
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_GE((*imported)->bytes(), 8192u);
  const auto numbers = Numbers(2048, 4);
  const MemSource sources[] = {{.address = numbers->address()}};
  std::byte* const destinations[] = {(*imported)->address()};
  Run({.sources = sources,
       .destinations = destinations,
       .elements = 2048,
       .type = DataType::kFloat32});
  std::vector<float> seen(2048);
  world_->ReadAsTenant(std::as_writable_bytes(std::span(seen)), buffer);
  EXPECT_EQ(seen, ReadFloats(*numbers, 2048));
}

TEST_P(DeviceContract, RejectsMemoryThatIsShorterThanOffered) {
  DeviceWorld::TenantBuffer buffer = world_->AllocateAsTenant(8192);
  buffer.bytes = size_t{1} << 40;
  const auto imported = Import(buffer.Offer());
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DeviceContract, RejectsAnInvalidHandle) {
  DeviceWorld::TenantBuffer buffer = world_->AllocateAsTenant(8192);
  for (size_t i = 0; i < buffer.handle.size(); ++i) buffer.handle[i] = static_cast<uint8_t>(i);
  const auto imported = Import(buffer.Offer());
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DeviceContract, ATokenIsReleasedWhenNothingIsMapped) {
  const DeviceWorld::TenantBuffer buffer = world_->AllocateAsTenant(8192);
  absl::StatusOr<std::unique_ptr<Region>> imported = Import(buffer.Offer());
  ASSERT_TRUE(imported.ok()) << imported.status();
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> gone = token;
  device().mapper().Unmap({"blue", 7}, *std::move(imported), std::move(token));
  PollMapperUntil([&] { return gone.expired(); });
}

TEST_P(DeviceContract, ReleasesAMappingWithoutAWaiter) {
  const DeviceWorld::TenantBuffer buffer = world_->AllocateAsTenant(8192);
  device().mapper().Import({"blue", 7}, buffer.Offer());
  // The mapper serves one process in order, so the first import has finished when the second does.
  EXPECT_TRUE(Import(buffer.Offer()).ok());
}

TEST_P(DeviceContract, TheMapperMapsAndUnmapsChunksOfARange) {
  MemoryMapper& mapper = device().mapper();
  const std::shared_ptr<DeviceRange> range = *mapper.Reserve(4 * kChunk);
  for (int i = 0; i < 3; ++i) {
    const auto pending = mapper.MapInto({"blue", 7}, range, kChunk, ChunkOffer());
    PollMapperUntil([&] { return pending->ready(); });
    ASSERT_TRUE(pending->status.ok()) << pending->status;
    ExpectUnused(range->address() + kChunk);
    auto token = std::make_shared<std::shared_ptr<DeviceRange>>(range);
    const std::weak_ptr<void> gone = token;
    mapper.UnmapFrom({"blue", 7}, *range, {{kChunk, kChunk}}, std::move(token));
    PollMapperUntil([&] { return gone.expired(); });
  }
}

TEST_P(DeviceContract, DescribesItself) { EXPECT_FALSE(device().Description().empty()); }

// ---- Ranges ----------------------------------------------------------------------------------

TEST_P(DeviceContract, ChunksOfARangeAreAdjacent) {
  const auto range = device().mapper().Reserve(8 * kChunk);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ((*range)->bytes(), 8 * kChunk);
  for (const uint64_t at : {3, 2}) {
    const absl::Status mapped = (*range)->Map(at * kChunk, ChunkOffer());
    ASSERT_TRUE(mapped.ok()) << mapped;
  }
  std::vector<std::byte> written(2 * kChunk);
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 >> 4);
  std::byte* const place = (*range)->address() + 2 * kChunk;
  world_->Write(place, written);
  std::vector<std::byte> read(written.size());
  world_->Read(read, place);
  EXPECT_EQ(read, written);
}

TEST_P(DeviceContract, AnUnmappedChunkCanBeReplaced) {
  const auto range = device().mapper().Reserve(2 * kChunk);
  ASSERT_TRUE(range.ok()) << range.status();
  for (int i = 0; i < 3; ++i) {
    const absl::Status mapped = (*range)->Map(kChunk, ChunkOffer());
    ASSERT_TRUE(mapped.ok()) << mapped;
    ExpectUnused((*range)->address() + kChunk);
    (*range)->Unmap(kChunk, kChunk);
  }
}

TEST_P(DeviceContract, ARangeRejectsInvalidChunks) {
  EXPECT_FALSE(device().mapper().Reserve(0).ok());
  const auto range = device().mapper().Reserve(2 * kChunk);
  ASSERT_TRUE(range.ok()) << range.status();
  const auto rejected = [&](uint64_t at, UniqueFd fd, uint64_t bytes) {
    return !(*range)->Map(at, ChunkOffer(std::move(fd), bytes)).ok();
  };
  EXPECT_TRUE(rejected(0, UniqueFd(), kChunk)) << "no descriptor";
  EXPECT_TRUE(rejected(0, world_->AllocateAsDescriptor(kChunk), 2 * kChunk)) << "shorter";
  EXPECT_TRUE(rejected(1, world_->AllocateAsDescriptor(kChunk), kChunk)) << "between pages";
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_DEVICE_CONTRACT_H_
