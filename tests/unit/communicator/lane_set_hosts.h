// The lanes of a communicator of some hosts over a simulated network. Time advances from event to
// event and from deadline to deadline, as in the engine.
#ifndef MCCS_TESTS_UNIT_COMMUNICATOR_LANE_SET_HOSTS_H_
#define MCCS_TESTS_UNIT_COMMUNICATOR_LANE_SET_HOSTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "service/communicator/lanes/lane_set.h"
#include "service/device/cpu_device.h"
#include "service/transport/peer_listener.h"
#include "service/transport/stream_lane.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {

inline constexpr uint16_t kPort = 7400;
// For channel 0's lane from host 0; the ports of the other hosts and channels follow.
inline constexpr uint16_t kSourcePort = 40'000;
inline constexpr LaneShape kShape{.slots = 4, .slot_bytes = 16u << 10};
inline constexpr int kChannels = 2;

inline std::string AddressOf(int host) { return "10.0.0." + std::to_string(host + 1); }

// Host memory that may run out after `left` more allocations.
class LimitedMemory final : public Device {
 public:
  MemoryMapper& mapper() override { return real_.mapper(); }
  absl::StatusOr<std::unique_ptr<Region>> Allocate(size_t bytes) override {
    if (left == 0) return absl::ResourceExhaustedError("no memory");
    --left;
    ++taken;
    return real_.Allocate(bytes);
  }
  void Discard(std::span<std::byte> bytes) override {
    discarded += bytes.size();
    real_.Discard(bytes);
  }
  absl::StatusOr<std::unique_ptr<DevicePlan>> Load(PlanToLoad) override {
    return absl::UnimplementedError("not asked for here");
  }
  Submitted Submit(const MemOp&, MemToken) override { return Submitted::kQueueFull; }
  Polled Poll(std::span<Finished>) override { return {}; }
  std::string Description() const override { return "scarce"; }

  int left = 1000;
  int taken = 0;
  size_t discarded = 0;  // bytes

 private:
  CpuDevice real_{{}, std::make_unique<LocalImporter>()};
};

// A host whose source ports are in use for a while: Connect fails at once, and no event reports
// when they are free again.
class BusyPorts final : public Network {
 public:
  BusyPorts(Network& real, const Clock& clock) : real_(real), clock_(clock) {}
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& at) override {
    return real_.Listen(at);
  }
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const Endpoint& to,
                                                      const ConnectOptions& options) override {
    if (clock_.Now() >= busy_until) return real_.Connect(to, options);
    ++rejected;
    return absl::AlreadyExistsError("source port in use");
  }
  bool HasAddress(const std::string& address) override { return real_.HasAddress(address); }
  bool Poll() override { return real_.Poll(); }

  MonotonicNs busy_until = 0;
  int rejected = 0;

 private:
  Network& real_;
  const Clock& clock_;
};

// `hosts` hosts in one ring on every channel, in the order of their indices.
class LaneSetHosts : public testing::Test {
 protected:
  explicit LaneSetHosts(int hosts) : hosts_(static_cast<size_t>(hosts)), taken_(hosts_.size()) {}

  struct Host {
    std::unique_ptr<PeerListener> listener;
    std::unique_ptr<LaneSet> lanes;
    absl::Status status;
  };

  LaneSetOptions OptionsOf(int h) {
    Network* network =
        h == 0 ? static_cast<Network*>(&dialler_) : &network_.HostNetwork(AddressOf(h));
    LaneSetOptions options{.access = {network, &random_, &clock_},
                           .transport = &transport_,
                           .device = &device_,
                           .id = CommId(0x2a),
                           .secret = {},
                           .self = HostIndex(h),
                           .hosts = {},
                           .source_host = "",
                           .strategy = {}};
    options.strategy.lanes = kShape;
    options.strategy.channels.resize(kChannels);
    for (int i = 0; i < count(); ++i) {
      options.hosts.push_back({AddressOf(i), kPort});
      for (int c = 0; c < kChannels; ++c) {
        ChannelStrategy& channel = options.strategy.channels[static_cast<size_t>(c)];
        channel.ring.push_back(HostIndex(i));
        channel.source_ports.push_back(static_cast<uint16_t>(kSourcePort + count() * c + i));
      }
    }
    return options;
  }

  static Preamble LaneFrom(int from, int to, ChannelId channel) {
    return {.purpose = ConnectionPurpose::kLane,
            .comm_id = CommId(0x2a),
            .epoch = Epoch(1),
            .channel = channel,
            .from_host = HostIndex(from),
            .to_host = HostIndex(to)};
  }

  void OpenDoor(int h) {
    hosts_[h].listener = std::make_unique<PeerListener>(
        std::move(*network_.HostNetwork(AddressOf(h)).Listen({AddressOf(h), kPort})),
        [](const Preamble&) { return std::optional<Secret>(Secret{}); }, random_, *log_);
  }
  void Make(int h) { hosts_[h].lanes = std::move(*LaneSet::Make(OptionsOf(h))); }
  // Creates all hosts and waits until all ring lanes are up.
  void OpenAll() {
    for (int h = 0; h < count(); ++h) OpenDoor(h);
    for (int h = 0; h < count(); ++h) Make(h);
    ASSERT_TRUE(Run([&] {
      return std::ranges::all_of(hosts_, [](Host& h) { return h.lanes->ready(); });
    })) << lanes(0).DescribeMissing();
  }

  bool PollAll() {
    bool moved = false;
    for (Host& host : hosts_) {
      if (host.listener != nullptr) {
        for (Peer& peer : host.listener->Poll(clock_.Now())) {
          moved = true;
          if (host.lanes != nullptr) host.lanes->Accept(peer.preamble, std::move(peer.connection));
        }
      }
      if (host.lanes == nullptr || !host.status.ok()) continue;
      const auto lanes_moved = host.lanes->Poll();
      host.status = lanes_moved.status();
      moved |= lanes_moved.ok() && *lanes_moved;
    }
    return moved;
  }

  // As the engine: turns while anything moves, then sleeps until a byte or a deadline.
  bool Run(const std::function<bool()>& done, int64_t limit_ns = 2 * kNsPerSec) {
    const MonotonicNs limit = clock_.Now() + limit_ns;
    for (;;) {
      while (PollAll()) {
      }
      if (done()) return true;
      MonotonicNs next = network_.NextEventTime().value_or(limit);
      for (const Host& host : hosts_) {
        if (host.lanes != nullptr && host.status.ok())
          next = std::min(next, host.lanes->NextDeadline());
      }
      next = std::max(next, clock_.Now() + 1);
      if (next > limit) {
        network_.AdvanceTo(limit);
        return false;
      }
      network_.AdvanceTo(next);
    }
  }
  bool RunToError(int h) {
    return Run([&, h] { return !hosts_[h].status.ok(); });
  }

  // Sends a slice of one byte from host `from` on a channel; false without credit.
  bool Send(int from, int channel, uint8_t value) {
    const std::byte byte{value};  // a short slice: the lane copies it
    const RegionSpan piece = SpanAt(&byte, 1);
    const auto posted = channel_of(from, channel).send->Post(piece, SliceTag{});
    return posted.ok() && posted->has_value();
  }
  // The next slice received by host `to`.
  std::optional<uint8_t> Take(int to, int channel) {
    RecvLane& lane = *channel_of(to, channel).receive;
    SliceNumber& next = taken_[to][channel];
    if (lane.Landed(next) == Landing::kNotYet) return std::nullopt;
    const auto value =
        std::to_integer<uint8_t>(lane.slots().address()[next % kShape.slots * kShape.slot_bytes]);
    lane.Release(next++);
    return value;
  }
  // Transfers `value` from host 0 to host 1.
  void ExpectCarries(int channel, uint8_t value) {
    ASSERT_TRUE(Send(0, channel, value));
    std::optional<uint8_t> got;
    ASSERT_TRUE(Run([&] { return (got = Take(1, channel)).has_value(); })) << hosts_[0].status;
    EXPECT_EQ(*got, value);
  }

  int count() const { return static_cast<int>(hosts_.size()); }
  LaneSet& lanes(int h) { return *hosts_[h].lanes; }
  // The lanes of a channel's ring at host `h`.
  struct RingEnds {
    SendLane* send;
    RecvLane* receive;
  };
  RingEnds channel_of(int h, int c) {
    return {lanes(h).SendTo(ChannelId(c), HostIndex((h + 1) % count())),
            *lanes(h).ReceiveFrom(ChannelId(c), HostIndex((h + count() - 1) % count()))};
  }
  agent::v1::Lane StatsOf(int h, int c) { return lanes(h).Stats()[static_cast<size_t>(c)]; }

  SimClock clock_;
  SimNetwork network_{clock_, 1};
  BusyPorts dialler_{network_.HostNetwork(AddressOf(0)), clock_};  // host 0's
  SeededRandom random_{1};
  std::unique_ptr<Log> log_ = MakeNullLog();
  StreamTransport transport_;
  LimitedMemory device_;
  std::vector<Host> hosts_;
  std::vector<std::array<SliceNumber, kChannels>> taken_;  // by host
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_COMMUNICATOR_LANE_SET_HOSTS_H_
