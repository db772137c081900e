// Buffers of a device that maps synchronously, and a rank's ring; the test plays the tenant.
#ifndef MCCS_TESTS_UNIT_FRONTEND_RANK_ENDPOINT_FIXTURE_H_
#define MCCS_TESTS_UNIT_FRONTEND_RANK_ENDPOINT_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "service/device/cpu_device.h"
#include "service/frontend/buffer_registry.h"
#include "service/frontend/rank_endpoint.h"
#include "tests/unit/device/local_importer.h"

namespace mccs {

// The result of the only pending request. REQUIRES: the device maps synchronously.
inline absl::StatusOr<BufferId> TheMapped(BufferRegistry& registry) {
  const std::vector<BufferRegistry::Mapped> mapped = registry.TakeMapped();
  MCCS_CHECK(mapped.size() == 1);
  return mapped.front().id;
}

inline absl::StatusOr<BufferId> RegisterNow(BufferRegistry& registry, BufferExport offer) {
  MCCS_RETURN_IF_ERROR(registry.Register(1, std::move(offer)));
  return TheMapped(registry);
}

inline absl::Status MapChunkNow(BufferRegistry& registry, BufferId id, uint64_t offset,
                                BufferExport offer) {
  MCCS_RETURN_IF_ERROR(registry.MapChunk(1, id, offset, std::move(offer)));
  return TheMapped(registry).status();
}

inline constexpr int kRanks = 4;
inline constexpr size_t kBytes = 4096;

class RankEndpointTest : public testing::Test {
 protected:
  RankEndpointTest() {
    auto importer = std::make_unique<LocalImporter>();
    importer_ = importer.get();
    const LocalImporter::Handle handle = importer->Register(memory_, 7);
    device_ = std::make_unique<CpuDevice>(CpuDeviceOptions{}, std::move(importer));
    buffers_ = std::make_unique<BufferRegistry>(*device_, quota_, "blue");
    buffer_ =
        RegisterNow(*buffers_, {.handle = handle, .fd = UniqueFd(), .bytes = kBytes, .owner = 7})
            ->value();
    Renew();
  }

  // Replaces the endpoint and its ring.
  void Renew() {
    endpoint_ = MakeEndpoint();
    page_ = std::move(*SharedRegion::Map(endpoint_->TakeRegionFd()));
  }

  // An endpoint whose communicator is still forming.
  std::unique_ptr<RankEndpoint> MakeForming() {
    return std::move(*RankEndpoint::Make(
        Rank(1), *buffers_, /*kernels=*/nullptr,
        {.init_done = [](const absl::Status&, CommId) {}, .released = [this] { ++let_go_; }}));
  }
  std::unique_ptr<RankEndpoint> MakeEndpoint() {
    std::unique_ptr<RankEndpoint> endpoint = MakeForming();
    endpoint->InitDone(absl::OkStatus(), CommId(1), RosterRanks{.ranks = kRanks});
    return endpoint;
  }
  // The tenant's view.
  wire::CommRegion& page() { return *reinterpret_cast<wire::CommRegion*>(page_.data()); }
  wire::WorkRecord Call(uint64_t sequence, uint64_t count = 16) {
    wire::WorkRecord record{};
    record.sequence = sequence;
    record.op = OpKind::kAllReduce;
    record.type = DataType::kFloat32;
    record.count = count;
    record.send = {.id = buffer_, .reserved = 0, .offset = 0};
    record.recv = {.id = buffer_, .reserved = 0, .offset = 0};
    record.ready_slot = wire::kNoReadySlot;
    record.record = wire::RecordKind::kOperation;
    return record;
  }
  wire::WorkRecord Fence(uint32_t slot, uint64_t value) {
    wire::WorkRecord record{};
    record.record = wire::RecordKind::kFence;
    record.ready_slot = slot;
    record.ready_value = value;
    return record;
  }
  void Push(const wire::WorkRecord& record) {
    const uint64_t tail = page().tail.load();
    page().records[tail % wire::kRingRecords] = record;
    page().tail.store(tail + 1);
  }
  std::string Rejection() { return std::string(endpoint_->Front().status().message()); }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  LocalImporter* importer_ = nullptr;
  std::unique_ptr<CpuDevice> device_;
  BufferQuota quota_{BufferLimits{}};
  std::unique_ptr<BufferRegistry> buffers_;
  uint32_t buffer_ = 0;
  std::unique_ptr<RankEndpoint> endpoint_;
  SharedRegion page_;
  int let_go_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_FRONTEND_RANK_ENDPOINT_FIXTURE_H_
