// The cost of a lane's software per slice, both ends together, in ns of one thread: lanes over RDMA
// on the fake provider, and lanes over TCP's code on streams of the simulated network. Prints one
// JSON line per figure.
//
// Only the daemon's code counts. Each call into the provider (the fake NIC, the simulated stream)
// is timed, and its time is subtracted, as is that of reading the clock.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "service/transport/rdma/rdma_transport.h"
#include "service/transport/stream_lane.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_streams.h"
#include "tests/unit/transport/rdma/fake_verbs.h"

namespace mccs {
namespace {

constexpr const char* kAddresses[2] = {"10.0.0.1", "10.0.0.2"};

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Sums the time between construction and destruction.
struct Timer {
  int64_t ns = 0;
  int64_t calls = 0;
};
class Timed {
 public:
  explicit Timed(Timer& timer) : timer_(timer), begin_(Now()) {}
  ~Timed() {
    timer_.ns += Now() - begin_;
    ++timer_.calls;
  }
  Timed(const Timed&) = delete;

 private:
  Timer& timer_;
  const int64_t begin_;
};

// Of one Timed, as the code around it sees it.
double ClockNs() {
  constexpr int kReadings = 100'000;
  Timer ignored;
  const int64_t begin = Now();
  for (int i = 0; i < kReadings; ++i) Timed timed(ignored);
  return static_cast<double>(Now() - begin - ignored.ns) / kReadings;
}

class TimedConnection final : public Connection {
 public:
  TimedConnection(std::unique_ptr<Connection> real, Timer& timer)
      : real_(std::move(real)), timer_(timer) {}
  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    Timed timed(timer_);
    return real_->Write(pieces);
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    Timed timed(timer_);
    return real_->Read(pieces);
  }
  bool readable() const override { return real_->readable(); }
  bool writable() const override { return real_->writable(); }
  void SetWaker(Waker* waker) override { real_->SetWaker(waker); }
  Endpoint local() const override { return real_->local(); }
  Endpoint remote() const override { return real_->remote(); }

 private:
  const std::unique_ptr<Connection> real_;
  Timer& timer_;
};

class TimedQueuePair final : public QueuePair {
 public:
  TimedQueuePair(std::unique_ptr<QueuePair> real, Timer& timer)
      : real_(std::move(real)), timer_(timer) {}
  QueuePairAddress address() const override { return real_->address(); }
  absl::Status Connect(const QueuePairAddress& peer) override { return real_->Connect(peer); }
  absl::Status Post(std::span<const WorkRequest> requests) override {
    Timed timed(timer_);
    return real_->Post(requests);
  }
  void Stop() override { real_->Stop(); }
  void LimitRate(uint64_t bps) override { real_->LimitRate(bps); }
  uint16_t source_port() const override { return real_->source_port(); }

 private:
  const std::unique_ptr<QueuePair> real_;
  Timer& timer_;
};

class TimedNic final : public VerbsNic {
 public:
  TimedNic(VerbsNic& real, Timer& timer) : real_(real), timer_(timer) {}
  const NicAttributes& attributes() const override { return real_.attributes(); }
  absl::StatusOr<std::unique_ptr<ProtectionDomain>> MakeDomain() override {
    return real_.MakeDomain();
  }
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePair(
      ProtectionDomain& domain, const QueuePairOptions& options) override {
    absl::StatusOr<std::unique_ptr<QueuePair>> made = real_.MakeQueuePair(domain, options);
    if (!made.ok()) return made;
    return std::make_unique<TimedQueuePair>(*std::move(made), timer_);
  }
  uint32_t completion_entries() const override { return real_.completion_entries(); }
  size_t Poll(std::span<Completion> completions) override {
    Timed timed(timer_);
    return real_.Poll(completions);
  }
  std::optional<VerbsEvent> TakeEvent() override { return real_.TakeEvent(); }
  void Arm() override { real_.Arm(); }
  Counters counters() const override { return real_.counters(); }

 private:
  VerbsNic& real_;
  Timer& timer_;
};

class Memory final : public Region {
 public:
  explicit Memory(std::vector<std::byte> bytes)
      : Region(RegionKind::kTenant, bytes.data(), bytes.size()), bytes_(std::move(bytes)) {}

 private:
  std::vector<std::byte> bytes_;
};

struct Load {
  uint32_t slice_bytes = 64 << 10;
  uint32_t slots = 8;
  uint64_t slices = 20'000;
  int rounds = 5;
};

// Two hosts, and one lane between them.
class Hosts {
 public:
  explicit Hosts(const Load& load)
      : load_(load), source_(Bytes(load.slice_bytes)), target_(Bytes(load.slice_bytes)) {}

  // Returns the ns per slice of the lanes' own code.
  double Run(bool rdma, double clock_ns) {
    const LaneShape shape{.slots = load_.slots, .slot_bytes = load_.slice_bytes};
    Memory slots(std::vector<std::byte>(size_t{shape.slots} * shape.slot_bytes));
    FakeFabric fabric(clock_, /*seed=*/1);
    std::vector<std::unique_ptr<TimedNic>> nics;
    std::vector<std::unique_ptr<Transport>> transports;
    for (const char* address : kAddresses) {
      if (!rdma) {
        transports.push_back(std::make_unique<StreamTransport>());
        continue;
      }
      nics.push_back(
          std::make_unique<TimedNic>(fabric.AddNic(address, address, address), provider_));
      transports.push_back(std::make_unique<RdmaTransport>(
          RdmaTransportOptions{.nics = {{.address = {address}, .verbs = nics.back().get()}}},
          random_, clock_));
    }
    std::unique_ptr<SendLane> send = transports[0]->MakeSendLane(IdentityOf(0), shape);
    std::unique_ptr<RecvLane> recv =
        transports[1]->MakeRecvLane(IdentityOf(1), shape, WholeOf(slots));
    send->WaitForPlaces();
    Connect(*send, *recv);
    provider_ = lanes_ = {};
    uint64_t expected = 0, landed = 0;
    while (landed < load_.slices) {
      {
        Timed timed(lanes_);
        while (expected < load_.slices && expected < landed + load_.slots) {
          recv->Expect(expected++, WholeOf(target_), {});
        }
        while (send->next() < load_.slices && send->Post(WholeOf(source_), {})->has_value()) {
        }
        for (const auto& transport : transports) transport->Poll();
        send->Poll();
        recv->Poll();
        while (landed < load_.slices && recv->Landed(landed) != Landing::kNotYet) {
          recv->Release(landed++);
        }
        recv->Acknowledge();
      }
      Advance(fabric);
    }
    const double outside = static_cast<double>(lanes_.ns - provider_.ns) -
                           static_cast<double>(provider_.calls + lanes_.calls) * clock_ns;
    return outside / static_cast<double>(load_.slices);
  }

 private:
  static std::vector<std::byte> Bytes(size_t count) { return std::vector<std::byte>(count); }
  static LaneIdentity IdentityOf(int self) {
    return {.communicator = CommId(1),
            .epoch = Epoch(1),
            .channel = ChannelId(0),
            .from = HostIndex(0),
            .to = HostIndex(1),
            .queues = {.peer = {kAddresses[1 - self], 7400},
                       .domain = {.nic = {kAddresses[self]}, .tenant = "bench"},
                       .traffic_class = TrafficClass(0)}};
  }
  void Connect(SendLane& send, RecvLane& recv) {
    auto listener = *network_.HostNetwork(kAddresses[1]).Listen({kAddresses[1], 7400});
    StreamEnds ends = OpenStream(network_.HostNetwork(kAddresses[0]), *listener,
                                 [&] { network_.AdvanceTo(*network_.NextEventTime()); });
    send.Attach(std::make_unique<TimedConnection>(std::move(ends.from), provider_));
    recv.Attach(std::make_unique<TimedConnection>(std::move(ends.to), provider_));
  }
  void Advance(FakeFabric& fabric) {
    MonotonicNs next = fabric.NextEventTime().value_or(kNever);
    next = std::min(next, network_.NextEventTime().value_or(kNever));
    if (next == kNever) return;
    network_.AdvanceTo(std::max(next, clock_.Now()));
    fabric.Step();
  }

  const Load load_;
  SimClock clock_;
  SeededRandom random_{1};
  SimNetwork network_{clock_,
                      /*seed=*/1,
                      {.min_delay_ns = 1000,
                       .max_delay_ns = 2000,
                       .max_portion_bytes = 1 << 20,
                       .buffer_bytes = 4 << 20}};
  Memory source_, target_;
  Timer provider_, lanes_;
};

int Main(int argc, char** argv) {
  Load load;
  CLI::App app("Measures the software of lanes per slice, without NICs and kernel.",
               "lane_software");
  app.add_option("--slice-bytes", load.slice_bytes, "bytes of a slice")
      ->check(CLI::Range(1u, 16u << 20))
      ->capture_default_str();
  app.add_option("--slices", load.slices, "number of slices per round")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", load.rounds, "number of rounds; the best one counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const double clock_ns = ClockNs();
  double best[2] = {1e12, 1e12};
  for (int round = 0; round < load.rounds; ++round) {
    for (const bool rdma : {false, true}) {
      best[rdma] = std::min(best[rdma], Hosts(load).Run(rdma, clock_ns));
    }
  }
  for (const bool rdma : {false, true}) {
    std::printf(
        "{\"bench\": \"lane_software\", \"how\": \"%s\", \"slice_bytes\": %u, \"value\": %.0f, "
        "\"unit\": \"ns per slice, both ends\"}\n",
        rdma ? "rdma" : "tcp", load.slice_bytes, best[rdma]);
  }
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }
