// The hop of an all-gather between hosts: two processes stand for the daemons of two hosts with one
// rank each. Each runs an executor over lanes of loopback connections and gathers a few bytes, one
// operation after the other, so that each operation is one hop in both directions at once.
//
//   gather_hop [--operations 20000] [--bytes 8]
//
// Prints the mean time of a hop in microseconds.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <utility>

#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "base/check.h"
#include "base/clock.h"
#include "bench/exchange_side.h"
#include "service/device/cpu_device.h"
#include "service/device/emulation_importer.h"
#include "service/executor/executor.h"
#include "service/transport/stream_lane.h"

namespace mccs {
namespace {

constexpr LaneShape kShape{.slots = 8, .slot_bytes = 32u << 10};
constexpr uint32_t kSkew = 3;

struct Load {
  int operations = 20'000;
  uint64_t bytes = 8;
};

// The lane to the other host and the lane from it.
class LanePair final : public LaneDirectory {
 public:
  LanePair(Device& device, Side& side)
      : slots_(*device.Allocate(kBytes)),
        staging_(*device.Allocate(kBytes)),
        send_(transport_.MakeSendLane({}, kShape)),
        receive_(transport_.MakeRecvLane({}, kShape, WholeOf(*slots_))) {
    send_->Attach(std::move(side.out.front()));
    receive_->Attach(std::move(side.in.front()));
  }
  SendLane* SendTo(ChannelId, HostIndex) override { return send_.get(); }
  absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId, HostIndex) override { return receive_.get(); }
  absl::StatusOr<RegionSpan> StagingTo(ChannelId, HostIndex) override { return WholeOf(*staging_); }

  // As an engine's turn: the lanes are read before operations run, and written after them.
  bool Read() { return receive_->Poll(); }
  bool Write() { return send_->Poll(); }

 private:
  static constexpr size_t kBytes = size_t{kShape.slots} * kShape.slot_bytes;
  StreamTransport transport_;
  const std::unique_ptr<Region> slots_, staging_;
  const std::unique_ptr<SendLane> send_;
  const std::unique_ptr<RecvLane> receive_;
};

std::shared_ptr<const Plan> GatherPlan(HostIndex self) {
  const Layout layout{.hosts = {{Rank(0)}, {Rank(1)}}};
  const ChannelOrders orders{.rings = {{HostIndex(0), HostIndex(1)}}};
  const PlanKey key{.kind = OpKind::kAllGather, .algorithm = Algorithm::kRing};
  auto plan = BuildPlan(key, layout, orders, self);
  MCCS_CHECK(plan.ok());
  return std::make_shared<const Plan>(*std::move(plan));
}

// Seconds of all operations.
double Run(Side& side, const Load& load) {
  CpuDevice device({.workers = 0}, std::make_unique<EmulationImporter>());
  side.Open(1);
  LanePair lanes(device, side);
  Executor executor(device, lanes, kShape, /*channels=*/1);
  const std::unique_ptr<Region> input = *device.Allocate(load.bytes);
  const std::unique_ptr<Region> output = *device.Allocate(2 * load.bytes);
  const RankMemory rank{.input = WholeOf(*input), .output = WholeOf(*output)};
  Operation operation{
      .plan = GatherPlan(HostIndex(side.first() ? 0 : 1)), .skew = kSkew, .binding = {}};
  const Geometry geometry(*operation.plan, DataType::kInt8, load.bytes, kShape.slot_bytes);
  operation.binding = {.geometry = &geometry, .ranks = {&rank, 1}, .bytes = load.bytes};
  const SystemClock clock;
  const MonotonicNs begin = clock.Now();
  int idle = 0;
  for (int i = 0; i < load.operations; ++i) {
    MCCS_CHECK(executor.Start(operation).ok());
    while (executor.running() > 0) {
      bool moved = lanes.Read();
      const auto advanced = executor.Poll();
      MCCS_CHECK(advanced.ok());
      moved |= *advanced;
      moved |= lanes.Write();
      if (!moved) side.Idle(idle);
    }
  }
  const MonotonicNs end = clock.Now();
  side.Barrier();
  return static_cast<double>(end - begin) / kNsPerSec;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  mccs::Load load;
  CLI::App app{"Measures the hop of an all-gather between two hosts."};
  app.add_option("--operations", load.operations, "number of operations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--bytes", load.bytes, "bytes of a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return mccs::RunOnTwoSides(0, [&](mccs::Side& side) {
    const double seconds = mccs::Run(side, load);
    if (side.first()) std::cout << seconds / load.operations * 1e6 << "\n";
  });
}
