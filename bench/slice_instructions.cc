// Runs ring all-reduces of one simulated host among many, over lanes whose other ends answer at
// once. tests/instructions counts the executor's instructions per slice with valgrind's callgrind:
// they must not depend on the number of hosts.
//
//   slice_instructions OPERATIONS [--hosts 10]
//
// Prints the number of slices that the host sent and received.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "base/check.h"
#include "service/device/cpu_device.h"
#include "service/device/emulation_importer.h"
#include "service/executor/executor.h"

namespace mccs {
namespace {

constexpr LaneShape kShape{.slots = 8, .slot_bytes = 32u << 10};
constexpr uint32_t kSkew = 3;
constexpr size_t kBlockBytes = 64;  // one slice per block, all of the same length

// A lane without a connection, whose other end answers at once.
template <class End>
class SwiftLane : public End {
 public:
  bool Poll() override { return false; }
  void Attach(std::unique_ptr<Connection>) override {}
  void Mark(uint8_t) override {}
  absl::Status status() const override { return absl::OkStatus(); }
  LaneState state() const override { return LaneState::kReady; }
  LaneCounters counters() const override { return {}; }
  Endpoint local() const override { return {}; }
  Endpoint remote() const override { return {}; }
};

// The peer has each slice as soon as it is posted.
class SwiftSendLane final : public SwiftLane<SendLane> {
 public:
  absl::StatusOr<std::optional<SliceNumber>> Post(const RegionSpan&, const SliceTag&) override {
    return next_++;
  }
  bool has_room() const override { return true; }
  SliceNumber acknowledged() const override { return next_; }
  SliceNumber source_free() const override { return next_; }
  SliceNumber next() const override { return next_; }
  void SetGate(SendGate*) override {}
  LaneWait waits_for() const override { return LaneWait::kNothing; }

 private:
  SliceNumber next_ = 0;
};

// The peer sends as far as it has credit; a slice lands in its output if it is expected.
class SwiftRecvLane final : public SwiftLane<RecvLane> {
 public:
  SwiftRecvLane(const RegionSpan& slots, const SliceTag& tag) : slots_(slots), tag_(tag) {}
  void SetSink(SliceSink*) override {}
  bool Expect(SliceNumber n, const RegionSpan&, const SliceTag&) override {
    expected_ = n + 1;
    return true;
  }
  Landing Landed(SliceNumber n) const override {
    if (n < expected_) return Landing::kDirect;
    return n < released_ + kShape.slots ? Landing::kInSlot : Landing::kNotYet;
  }
  const SliceTag& Tag(SliceNumber) const override { return tag_; }
  uint32_t Bytes(SliceNumber) const override { return kBlockBytes; }
  RegionSpan slots() const override { return slots_; }
  std::optional<SliceTag> OldestTag() const override { return std::nullopt; }
  std::vector<RegionSpan> UnusedSlots() const override { return {}; }
  void Release(SliceNumber n) override { released_ = n + 1; }
  bool defers_acknowledgement() const override { return false; }
  void Acknowledge() override {}

  SliceNumber released() const { return released_; }

 private:
  const RegionSpan slots_;
  const SliceTag tag_;
  SliceNumber expected_ = 0;
  SliceNumber released_ = 0;
};

class SwiftLanes final : public LaneDirectory {
 public:
  SwiftLanes(Device& device, const SliceTag& tag)
      : slots_(*device.Allocate(kBytes)),
        staging_(*device.Allocate(kBytes)),
        receive_(WholeOf(*slots_), tag) {}
  SendLane* SendTo(ChannelId, HostIndex) override { return &send_; }
  absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId, HostIndex) override { return &receive_; }
  absl::StatusOr<RegionSpan> StagingTo(ChannelId, HostIndex) override { return WholeOf(*staging_); }

  uint64_t slices() const { return send_.next() + receive_.released(); }

 private:
  static constexpr size_t kBytes = size_t{kShape.slots} * kShape.slot_bytes;
  const std::unique_ptr<Region> slots_, staging_;
  SwiftSendLane send_;
  SwiftRecvLane receive_;
};

std::shared_ptr<const Plan> RingPlan(int hosts) {
  Layout layout;
  ChannelOrders orders{.rings = {std::vector<HostIndex>()}};
  for (int h = 0; h < hosts; ++h) {
    layout.hosts.push_back({Rank(h)});
    orders.rings[0].push_back(HostIndex(h));
  }
  const PlanKey key{.kind = OpKind::kAllReduce, .algorithm = Algorithm::kRing};
  auto plan = BuildPlan(key, layout, orders, HostIndex(0));
  MCCS_CHECK(plan.ok());
  return std::make_shared<const Plan>(*std::move(plan));
}

void Run(int operations, int hosts) {
  CpuDevice device({.workers = 0}, std::make_unique<EmulationImporter>());
  const SliceTag tag{};
  SwiftLanes lanes(device, tag);
  Executor executor(device, lanes, kShape, /*channels=*/1);
  const uint64_t bytes = kBlockBytes * static_cast<uint64_t>(hosts);
  const std::unique_ptr<Region> input = *device.Allocate(bytes);
  const std::unique_ptr<Region> output = *device.Allocate(bytes);
  const RankMemory rank{.input = WholeOf(*input), .output = WholeOf(*output)};
  Operation operation{.plan = RingPlan(hosts), .skew = kSkew, .binding = {}, .tag = tag};
  const uint64_t count = bytes / sizeof(float);
  const Geometry geometry(*operation.plan, DataType::kFloat32, count, kShape.slot_bytes);
  operation.binding = {
      .geometry = &geometry, .ranks = {&rank, 1}, .bytes = bytes, .type = DataType::kFloat32};
  for (int i = 0; i < operations; ++i) {
    MCCS_CHECK(executor.Start(operation).ok());
    while (executor.running()) {
      const auto moved = executor.Poll();
      MCCS_CHECK(moved.ok());
      MCCS_CHECK(*moved);
    }
  }
  std::cout << lanes.slices() << "\n";
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  int operations = 0;
  int hosts = 10;
  CLI::App app{"Runs ring all-reduces of one host, to count instructions with callgrind."};
  app.add_option("operations", operations, "number of operations")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--hosts", hosts)->check(CLI::Range(2, mccs::kMaxHosts))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  mccs::Run(operations, hosts);
}
