// Buffers of several chunks: which ranges are mapped, what is rejected, and when a chunk is
// unmapped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "service/device/cpu_device.h"
#include "service/frontend/buffer_registry.h"
#include "tests/unit/device/emulated_allocation.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {
namespace chunked_buffer_test {

using ::testing::HasSubstr;

constexpr uint64_t kChunk = 64 * kKiB;
constexpr uint64_t kRange = 64 * kChunk;

class ChunkedBufferTest : public ::testing::Test {
 protected:
  ChunkedBufferTest() { id_ = *registry_.Reserve(kRange); }

  // Maps memory of its own, whose first byte is `mark`.
  absl::Status Map(uint64_t offset, uint64_t bytes = kChunk, char mark = 1) {
    EmulatedAllocation memory(bytes);
    MCCS_CHECK(pwrite(memory.fd(), &mark, 1, 0) == 1);
    return MapFile(offset, bytes, memory.TakeFd());
  }
  absl::Status MapFile(uint64_t offset, uint64_t bytes, UniqueFd fd) {
    return MapChunkNow(registry_, id_, offset,
                       {.kind = wire::ExportKind::kFileDescriptor,
                        .fd = std::move(fd),
                        .bytes = bytes,
                        .owner = 7});
  }
  absl::StatusOr<BufferHold> Resolve(uint64_t offset, uint64_t bytes) {
    return registry_.Resolve({.id = id_.value(), .reserved = 0, .offset = offset}, bytes, 1);
  }
  std::string Rejection(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
  static char At(const BufferHold& hold, uint64_t offset) {
    return static_cast<char>(hold->address()[offset]);
  }

  CpuDevice device_{{}, std::make_unique<LocalImporter>()};
  BufferQuota quota_{{.buffers_per_tenant = 201, .mapped_bytes_per_tenant = 1 * kGiB}};
  HostBudget budget_{HostLimits{}};
  BufferRegistry registry_{device_, quota_,
                           "blue",  nullptr,
                           0,       budget_.Of("blue", "", std::make_shared<TenantCounters>())};
  BufferId id_{0};
};

TEST_F(ChunkedBufferTest, AdjacentChunksAreOneRange) {
  ASSERT_TRUE(Map(2 * kChunk, kChunk, 3).ok());
  ASSERT_TRUE(Map(0, kChunk, 1).ok());
  EXPECT_FALSE(Resolve(0, 3 * kChunk).ok());
  ASSERT_TRUE(Map(kChunk, kChunk, 2).ok());
  const auto hold = Resolve(0, 3 * kChunk);
  ASSERT_TRUE(hold.ok()) << hold.status();
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(At(*hold, i * kChunk), static_cast<char>(i + 1));
  EXPECT_TRUE(Resolve(kChunk + 1, 2 * kChunk - 1).ok());
}

TEST_F(ChunkedBufferTest, RejectsUnmappedRanges) {
  EXPECT_THAT(Rejection(Resolve(0, 1).status()), HasSubstr("not completely mapped"));
  ASSERT_TRUE(Map(kChunk).ok());
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint64_t>{kChunk - 1, 2},
                                      {2 * kChunk - 1, 2},
                                      {kRange - 1, 1},
                                      {0, kRange}}) {
    EXPECT_THAT(Rejection(Resolve(offset, bytes).status()), HasSubstr("not completely mapped"));
  }
  EXPECT_THAT(Rejection(Resolve(kRange, 1).status()), HasSubstr("exceed buffer"));
  EXPECT_THAT(Rejection(Resolve(~uint64_t{0}, 2).status()), HasSubstr("exceed buffer"));
}

TEST_F(ChunkedBufferTest, RejectsInvalidChunks) {
  ASSERT_TRUE(Map(kChunk, 2 * kChunk).ok());
  EXPECT_THAT(Rejection(Map(0, 2 * kChunk)),
              HasSubstr("overlaps the one of 131072 bytes at 65536"));
  EXPECT_THAT(Rejection(Map(kChunk)), HasSubstr("overlaps"));
  EXPECT_THAT(Rejection(Map(2 * kChunk)), HasSubstr("overlaps"));
  EXPECT_THAT(Rejection(Map(kRange - kChunk, 2 * kChunk)), HasSubstr("exceeds its range"));
  EXPECT_THAT(Rejection(Map(~uint64_t{0} - 4095, kChunk)), HasSubstr("exceeds its range"));
  EXPECT_THAT(Rejection(MapFile(0, 0, UniqueFd())), HasSubstr("exceeds its range"));
  EXPECT_THAT(Rejection(MapFile(0, kChunk, UniqueFd())), HasSubstr("no descriptor"));
  EXPECT_THAT(Rejection(MapFile(0, 4097, EmulatedAllocation(8192).TakeFd())),
              HasSubstr("whole pages"));
  EXPECT_THAT(Rejection(MapFile(17, 4096, EmulatedAllocation(8192).TakeFd())),
              HasSubstr("whole pages"));
  EXPECT_THAT(Rejection(MapFile(0, kChunk, EmulatedAllocation(4096).TakeFd())),
              HasSubstr("the memory file has 4096 bytes"));
  EXPECT_THAT(Rejection(MapFile(0, 4096, EmulatedAllocation(4096, 0).TakeFd())),
              HasSubstr("sealed"));
  UniqueFd pipe_ends[2];
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  for (int i = 0; i < 2; ++i) pipe_ends[i].Reset(fds[i]);
  EXPECT_THAT(Rejection(MapFile(0, 4096, std::move(pipe_ends[0]))), HasSubstr("not a memory file"));
  EXPECT_TRUE(Map(0).ok()) << "a rejected chunk leaves no state";
}

TEST_F(ChunkedBufferTest, OnlyChunkedBuffersHaveChunks) {
  id_ = BufferId(77);
  EXPECT_THAT(Rejection(Map(0)), HasSubstr("not registered"));
  EXPECT_THAT(Rejection(registry_.UnmapChunks(id_, {0, 1}).status()), HasSubstr("not registered"));
}

TEST_F(ChunkedBufferTest, ARemovedChunkFreesItsRange) {
  ASSERT_TRUE(Map(0, kChunk, 1).ok());
  ASSERT_TRUE(Map(kChunk, kChunk, 2).ok());
  const auto gone = registry_.UnmapChunks(id_, {kChunk, kChunk});
  ASSERT_TRUE(gone.ok());
  EXPECT_TRUE(gone->expired());
  EXPECT_TRUE(Resolve(0, kChunk).ok());
  EXPECT_FALSE(Resolve(0, 2 * kChunk).ok());
  ASSERT_TRUE(Map(kChunk, kChunk, 9).ok());
  const auto hold = Resolve(0, 2 * kChunk);
  ASSERT_TRUE(hold.ok());
  EXPECT_EQ(At(*hold, kChunk), 9);
}

TEST_F(ChunkedBufferTest, AChunkStaysMappedForItsUsers) {
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(Map(i * kChunk, kChunk, 5).ok());
  auto first = Resolve(0, kChunk);
  const auto gone = registry_.UnmapChunks(id_, {0, kChunk});
  auto second = Resolve(kChunk, kChunk);
  const auto gone_too = registry_.UnmapChunks(id_, {kChunk, kChunk});
  ASSERT_TRUE(gone.ok() && gone_too.ok() && first.ok() && second.ok());
  EXPECT_THAT(Rejection(Map(0)), HasSubstr("which operations still use"));
  second->reset();
  EXPECT_FALSE(gone_too->expired()) << "the first holder may use this chunk too";
  EXPECT_EQ(At(*first, kChunk), 5);
  first->reset();
  EXPECT_TRUE(gone->expired());
  EXPECT_TRUE(gone_too->expired());
  EXPECT_TRUE(Map(0).ok());
}

TEST_F(ChunkedBufferTest, TheBufferEndsWithItsLastHolder) {
  ASSERT_TRUE(Map(0, kChunk, 5).ok());
  auto hold = Resolve(0, kChunk);
  const auto gone = registry_.Release(id_);
  ASSERT_TRUE(gone.ok() && hold.ok());
  EXPECT_FALSE(gone->expired());
  EXPECT_EQ(At(*hold, 0), 5);
  hold->reset();
  EXPECT_TRUE(gone->expired());
  EXPECT_EQ(budget_.held(Resource::kMappings), 0u);
}

TEST_F(ChunkedBufferTest, ChunksCountAgainstTheTenantsLimit) {
  for (uint64_t i = 0; i < kRange / kChunk; ++i) ASSERT_TRUE(Map(i * kChunk).ok());
  const auto other = registry_.Reserve(kRange);
  ASSERT_TRUE(other.ok());
  const BufferId full = std::exchange(id_, *other);
  absl::Status status;
  uint64_t more = 0;
  for (; status.ok() && more < kRange / kChunk; ++more) status = Map(more * kChunk);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("buffers_per_tenant"));
  ASSERT_TRUE(registry_.Release(full).ok());
  EXPECT_TRUE(Map(more * kChunk).ok()) << "the unmapped range is free";
}

TEST_F(ChunkedBufferTest, ReservationsAreBounded) {
  EXPECT_THAT(registry_.Reserve(2 * kGiB).status().message(), HasSubstr("mapped_bytes_per_tenant"));
  EXPECT_FALSE(registry_.Reserve(0).ok());
  EXPECT_FALSE(registry_.Reserve(4097).ok());
  EXPECT_EQ(budget_.held(Resource::kMappings), 1u);
  EXPECT_EQ(budget_.held(Resource::kMappedBytes), kRange) << "also where nothing is mapped";
  ASSERT_TRUE(Map(0).ok());
  EXPECT_NE((*Resolve(0, 1))->budget(), nullptr);
}

TEST_F(ChunkedBufferTest, RemovedChunksInUseAreBounded) {
  ASSERT_TRUE(Map(0).ok());
  const auto hold = Resolve(0, kChunk);
  absl::Status status;
  for (int i = 0; status.ok() && i < 1000; ++i) {
    status = registry_.UnmapChunks(id_, {0, kChunk}).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

}  // namespace chunked_buffer_test
}  // namespace mccs
