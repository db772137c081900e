// Hosts with lanes over RDMA between them, on fake NICs and simulated streams.
#ifndef MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_WORLD_H_
#define MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "service/device/mapping_runner.h"
#include "service/host_budget.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_streams.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/transport/rdma/fake_verbs.h"
#include "tests/unit/transport/rdma/rdma_host.h"

namespace mccs {
namespace rdma_test {

inline constexpr const char* kTenant = "a";
inline constexpr LaneShape kShape{.slots = 8, .slot_bytes = 64'000};

inline std::string AddressOf(size_t host) {
  return "10.0." + std::to_string(host / 250) + "." + std::to_string(host % 250 + 1);
}

struct Lane {
  size_t from = 0, to = 0;
  std::span<std::byte> slots;   // of the world: the NIC may write them after the lane's end
  std::unique_ptr<Region> own;  // instead of `slots`
  std::unique_ptr<SendLane> send;
  std::unique_ptr<RecvLane> recv;
  SliceNumber landed = 0;
};

// Runs jobs in their order, unless it is held.
class HeldRunner final : public MappingRunner {
 public:
  explicit HeldRunner(const bool& held) : held_(held) {}
  void Start(Lane, std::unique_ptr<MappingJob> job) override { jobs_.push_back(std::move(job)); }
  std::unique_ptr<MappingJob> TakeFinished() override {
    while (!held_ && !jobs_.empty()) {
      std::unique_ptr<MappingJob> job = std::move(jobs_.front());
      jobs_.pop_front();
      const MappingJob::Progress progress = job->Step();
      if (progress == MappingJob::Progress::kDone) return job;
      (progress == MappingJob::Progress::kLong ? long_ : jobs_).push_back(std::move(job));
    }
    if (held_ || hold_long || long_.empty()) return nullptr;
    std::unique_ptr<MappingJob> job = std::move(long_.front());
    long_.pop_front();
    MCCS_CHECK(job->Step() == MappingJob::Progress::kDone);
    return job;
  }
  size_t size() const { return jobs_.size() + long_.size(); }

  bool hold_long = false;  // long jobs wait

 private:
  const bool& held_;
  std::deque<std::unique_ptr<MappingJob>> jobs_;
  std::deque<std::unique_ptr<MappingJob>> long_;  // have returned kLong
};

// Slots as the daemon allocates them.
class OwnSlots final : public Region {
 public:
  explicit OwnSlots(std::vector<std::byte> bytes)
      : Region(RegionKind::kStaging, bytes.data(), bytes.size()), bytes_(std::move(bytes)) {}

 private:
  std::vector<std::byte> bytes_;
};

// A budget that allows tenants to pin so much.
inline HostLimits PinnedMemory(uint64_t bytes) {
  HostLimits limits;
  limits[Resource::kPinnedMemory] = bytes;
  return limits;
}
inline std::shared_ptr<TenantResources> Of(HostBudget& budget, const std::string& tenant) {
  return budget.Of(tenant, /*group=*/"", std::make_shared<TenantCounters>());
}

// Hosts with a fake NIC each. The last host to be added has the largest GID.
class RdmaWorld : public testing::Test {
 protected:
  void Start(size_t hosts, const FakeVerbsOptions& options = {},
             const RegistrationLimits& limits = kTestLimits) {
    fabric_ = std::make_unique<FakeFabric>(clock_, /*seed=*/1, options);
    for (size_t h = 0; h < hosts; ++h) {
      FakeNic& nic = fabric_->AddNic("fake" + std::to_string(h), /*host=*/"", AddressOf(h));
      nics_.push_back(&nic);
      auto runner = std::make_unique<HeldRunner>(jobs_held_);
      runners_.push_back(runner.get());
      hosts_.push_back(std::make_unique<RdmaHost<>>(
          std::vector<RdmaNic>{{.address = {AddressOf(h)}, .verbs = &nic}}, random_, clock_, limits,
          std::move(runner)));
    }
  }

  void Stop() {
    lanes_.clear();
    hosts_.clear();
    nics_.clear();
    runners_.clear();
    slots_.clear();
    fabric_.reset();
  }

  RdmaHost<>& host(size_t h) { return *hosts_[h]; }
  FakeNic& nic(size_t h) { return *nics_[h]; }

  static LaneIdentity IdentityAt(bool sender, size_t from, size_t to, uint8_t traffic_class,
                                 const std::string& tenant) {
    const size_t self = sender ? from : to, peer = sender ? to : from;
    return {.communicator = CommId(7),
            .epoch = Epoch(1),
            .channel = ChannelId(0),
            .from = HostIndex(static_cast<int>(from)),
            .to = HostIndex(static_cast<int>(to)),
            .queues = {.peer = {AddressOf(peer), 7400},
                       .domain = {.nic = {AddressOf(self)}, .tenant = tenant},
                       .traffic_class = TrafficClass(traffic_class)}};
  }

  Lane& Open(size_t from, size_t to, uint8_t traffic_class = 0, bool has_slots = true,
             const std::string& tenant = kTenant, bool own_slots = false) {
    Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>());
    lane.from = from;
    lane.to = to;
    constexpr size_t kSlotsBytes = size_t{kShape.slots} * kShape.slot_bytes;
    if (own_slots) lane.own = std::make_unique<OwnSlots>(std::vector<std::byte>(kSlotsBytes));
    if (has_slots && !own_slots) GiveSlots(lane);
    const RegionSpan slots = own_slots ? WholeOf(*lane.own) : SpanOf(lane.slots);
    lane.send = host(from).transport.MakeSendLane(IdentityAt(true, from, to, traffic_class, tenant),
                                                  kShape);
    lane.recv = host(to).transport.MakeRecvLane(IdentityAt(false, from, to, traffic_class, tenant),
                                                kShape, has_slots ? slots : RegionSpan{});
    Attach(lane);
    return lane;
  }
  void GiveSlots(Lane& lane) {
    lane.slots = slots_.emplace_back(size_t{kShape.slots} * kShape.slot_bytes);
  }
  void Attach(Lane& lane) {
    auto [sender, receiver] = ConnectStreams(lane.from, lane.to);
    lane.send->Attach(std::move(sender));
    lane.recv->Attach(std::move(receiver));
  }

  StreamEnds ConnectStreams(size_t from, size_t to) {
    auto listener = network_.HostNetwork(AddressOf(to)).Listen({});
    MCCS_CHECK(listener.ok());
    return OpenStream(network_.HostNetwork(AddressOf(from)), **listener, [this] { Advance(); });
  }

  void Advance() {
    MonotonicNs next = std::min(network_.NextEventTime().value_or(kNever),
                                fabric_->NextEventTime().value_or(kNever));
    for (const auto& host : hosts_) {
      const MonotonicNs deadline = host->transport.NextDeadline();
      if (deadline > clock_.Now()) next = std::min(next, deadline);
    }
    network_.AdvanceTo(next == kNever ? clock_.Now() : std::max(next, clock_.Now()));
    fabric_->Step();
  }

  bool RunUntil(const std::function<bool()>& done) {
    for (int i = 0; i < 200'000; ++i) {
      if (done()) return true;
      bool moved = false;
      for (size_t h = 0; h < hosts_.size(); ++h) {
        if (h != late_host_) moved |= host(h).transport.Poll();
      }
      for (const auto& lane : lanes_) {
        moved |= lane->send != nullptr && lane->from != late_host_ && lane->send->Poll();
        moved |= lane->recv != nullptr && lane->to != late_host_ && lane->recv->Poll();
      }
      if (!moved) Advance();
    }
    return done();
  }
  bool Ready(const Lane& lane) const {
    return lane.send->state() == LaneState::kReady && lane.recv->state() == LaneState::kReady;
  }

  // Posts as far as there is room, up to `count` slices, and releases what lands.
  void Carry(Lane& lane, SliceNumber count) {
    static const std::vector<std::byte> payload(kShape.slot_bytes, std::byte{3});
    while (lane.send->next() < count && lane.send->has_room()) {
      const auto posted = lane.send->Post(SpanOf(payload), {});
      ASSERT_TRUE(posted.ok()) << posted.status();
    }
    while (lane.landed < count && lane.recv->Landed(lane.landed) != Landing::kNotYet)
      lane.recv->Release(lane.landed++);
  }

  std::optional<size_t> late_host_;  // takes no turns
  bool jobs_held_ = false;           // the devices do not make, connect, register or end anything
  SimClock clock_;
  SimNetwork network_{clock_, /*seed=*/1};
  SeededRandom random_{1};
  std::unique_ptr<FakeFabric> fabric_;
  std::vector<FakeNic*> nics_;
  std::vector<HeldRunner*> runners_;
  std::deque<std::vector<std::byte>> slots_;
  std::vector<std::unique_ptr<RdmaHost<>>> hosts_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace rdma_test
}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRANSPORT_RDMA_RDMA_WORLD_H_
