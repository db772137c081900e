#include "service/frontend/buffer_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <limits>
#include <vector>

#include "service/device/cpu_device.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/eventually.h"
#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {
namespace buffer_registry_test {

using testing::HasSubstr;

class BufferRegistryTest : public testing::Test {
 protected:
  BufferRegistryTest() {
    auto importer = std::make_unique<LocalImporter>();
    importer_ = importer.get();
    device_ = std::make_unique<CpuDevice>(CpuDeviceOptions{}, std::move(importer));
    registry_ = std::make_unique<BufferRegistry>(
        *device_, quota_, "blue", nullptr, 0,
        budget_.Of("blue", "", std::make_shared<TenantCounters>()));
  }

  absl::StatusOr<BufferId> Register(uint64_t bytes, pid_t owner = 7) {
    const LocalImporter::Handle handle = importer_->Register(memory_, 7);
    return RegisterNow(*registry_,
                       {.handle = handle, .fd = UniqueFd(), .bytes = bytes, .owner = owner});
  }
  absl::Status Check(uint32_t id, uint64_t offset, uint64_t bytes, size_t alignment = 1) {
    return registry_->Resolve({.id = id, .reserved = 0, .offset = offset}, bytes, alignment)
        .status();
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  LocalImporter* importer_ = nullptr;
  std::unique_ptr<CpuDevice> device_;
  BufferQuota quota_{
      {.buffers_per_tenant = kMaxBuffersPerProcess + 10, .mapped_bytes_per_tenant = 1 * kGiB}};
  HostBudget budget_{HostLimits{}};
  std::unique_ptr<BufferRegistry> registry_;
};

TEST_F(BufferRegistryTest, ResolvesRangesInside) {
  const auto id = Register(1000);
  ASSERT_TRUE(id.ok());
  const auto hold = registry_->Resolve({.id = id->value(), .reserved = 0, .offset = 8}, 992, 8);
  ASSERT_TRUE(hold.ok());
  EXPECT_EQ((*hold)->address(), memory_.data());
  EXPECT_TRUE(Check(id->value(), 1000, 0).ok());
}

TEST_F(BufferRegistryTest, MemoryIsInTheBudgetOfItsProcess) {
  const uint32_t id = Register(1000)->value();
  const auto hold = registry_->Resolve({.id = id, .reserved = 0, .offset = 0}, 1, 1);
  ASSERT_NE((*hold)->budget(), nullptr);
  EXPECT_EQ((*hold)->budget()->name(), "blue");
  EXPECT_EQ(budget_.held(Resource::kMappedBytes), 1000u);
  // A buffer that is used stays in it, although its process has ended.
  registry_.reset();
  EXPECT_NE((*hold)->budget(), nullptr);
}

// Else a tenant could have much more mapped, and waiting to be unmapped, than it may.
TEST_F(BufferRegistryTest, AddressSpaceCountsBeforeItIsMapped) {
  const LocalImporter::Handle handle = importer_->Register(memory_, 7);
  const auto offer = [&](uint64_t bytes) {
    return BufferExport{.handle = handle, .fd = UniqueFd(), .bytes = bytes, .owner = 7};
  };
  ASSERT_TRUE(registry_->Register(1, offer(1000)).ok());
  EXPECT_GE(budget_.held(Resource::kMappedBytes), 1000u);
  EXPECT_TRUE(absl::IsResourceExhausted(registry_->Register(2, offer(2 * kGiB))));
  EXPECT_EQ(registry_->pending(), 1u);
  std::vector<BufferRegistry::Mapped> mapped;
  ASSERT_TRUE(Eventually([&] { return !(mapped = registry_->TakeMapped()).empty(); }));
  EXPECT_TRUE(mapped.front().id.ok());
  EXPECT_EQ(budget_.held(Resource::kMappedBytes), 1000u);
}

TEST_F(BufferRegistryTest, RejectsRangesOutside) {
  const uint32_t id = Register(1000)->value();
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(Check(id, 8, 993).message(), HasSubstr("993 bytes at offset 8 exceed"));
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint64_t>{1001, 0},
                                      {huge, 1},
                                      {huge, huge},
                                      {1, huge},
                                      {0, 1001},
                                      {huge - 7, 16}}) {
    EXPECT_FALSE(Check(id, offset, bytes).ok()) << offset << " + " << bytes;
  }
}

TEST_F(BufferRegistryTest, AnOffsetBetweenElementsIsRejected) {
  const uint32_t id = Register(1000)->value();
  EXPECT_THAT(Check(id, 6, 4, 4).message(), HasSubstr("not aligned"));
}

TEST_F(BufferRegistryTest, UnknownAndReleasedBuffersAreRejected) {
  const uint32_t id = Register(1000)->value();
  EXPECT_FALSE(Check(0, 0, 1).ok());
  EXPECT_FALSE(Check(id + 1, 0, 1).ok());
  ASSERT_TRUE(registry_->Release(BufferId(id)).ok());
  EXPECT_FALSE(Check(id, 0, 1).ok());
  EXPECT_FALSE(registry_->Release(BufferId(id)).ok());
}

TEST_F(BufferRegistryTest, AReleasedBufferStaysMappedForItsHolder) {
  const uint32_t id = Register(1000)->value();
  auto hold = registry_->Resolve({.id = id, .reserved = 0, .offset = 0}, 1, 1);
  ASSERT_TRUE(hold.ok());
  const auto released = registry_->Release(BufferId(id));
  ASSERT_TRUE(released.ok());
  EXPECT_FALSE(released->expired());
  hold->reset();
  EXPECT_TRUE(released->expired());
}

TEST_F(BufferRegistryTest, RejectsForeignMemory) {
  EXPECT_FALSE(Register(1000, /*owner=*/8).ok());
  EXPECT_FALSE(Register(1001).ok());
}

// Its last close may free a large file, so its holder closes it on a thread.
TEST_F(BufferRegistryTest, ARejectedOfferKeepsItsDescriptor) {
  const auto offer = [] {
    return BufferExport{.kind = wire::ExportKind::kFileDescriptor,
                        .fd = UniqueFd(memfd_create("offer", MFD_CLOEXEC)),
                        .bytes = 4096,
                        .owner = 7};
  };
  BufferExport chunk = offer();
  EXPECT_TRUE(absl::IsInvalidArgument(
      registry_->MapChunk(1, BufferId(4711), /*offset=*/0, std::move(chunk))));
  EXPECT_TRUE(chunk.fd.valid());
  for (size_t i = 0; i < kMaxBuffersPerProcess; ++i) ASSERT_TRUE(Register(1).ok());
  BufferExport whole = offer();
  EXPECT_TRUE(absl::IsResourceExhausted(registry_->Register(2, std::move(whole))));
  EXPECT_TRUE(whole.fd.valid());
}

TEST_F(BufferRegistryTest, AProcessHasALimit) {
  for (size_t i = 0; i < kMaxBuffersPerProcess; ++i) ASSERT_TRUE(Register(1).ok());
  const absl::Status rejected = Register(1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(rejected));
  EXPECT_THAT(rejected.message(), HasSubstr("8192"));
  EXPECT_THAT(rejected.message(), HasSubstr("larger allocations"));
  ASSERT_TRUE(registry_->Release(BufferId(1)).ok());
  EXPECT_TRUE(Register(1).ok());
}

TEST_F(BufferRegistryTest, AReleasedBufferCountsUntilItsLastHolder) {
  const uint32_t id = Register(1000)->value();
  auto hold = registry_->Resolve({.id = id, .reserved = 0, .offset = 0}, 1, 1);
  const auto released = registry_->Release(BufferId(id));
  EXPECT_EQ(budget_.held(Resource::kMappings), 1u);
  hold->reset();
  EXPECT_EQ(budget_.held(Resource::kMappings), 0u) << "although a release still reads the pointer";
}

TEST_F(BufferRegistryTest, ARejectedBufferUsesNoQuota) {
  EXPECT_FALSE(Register(1001).ok());
  EXPECT_EQ(budget_.held(Resource::kMappings), 0u);
}

}  // namespace buffer_registry_test
}  // namespace mccs
