// The transport contract over RDMA with a fake NIC on each of two hosts.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "tests/contract/transport_acknowledgement_contract.h"
#include "tests/contract/transport_contract.h"
#include "tests/contract/transport_gate_contract.h"
#include "tests/contract/transport_places_contract.h"
#include "tests/contract/transport_sharing_contract.h"
#include "tests/contract/transport_slotless_contract.h"
#include "tests/contract/transport_stream_contract.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_streams.h"
#include "tests/unit/transport/rdma/fake_verbs.h"
#include "tests/unit/transport/rdma/rdma_host.h"

namespace mccs {
namespace rdma_transport_test {

class RdmaWorld final : public TransportWorld {
 public:
  RdmaWorld(uint64_t seed, const FakeVerbsOptions& options, bool receiver_makes)
      : network_(clock_, seed), fabric_(clock_, seed, options), random_(seed) {
    // The NIC that is added first has the smaller GID.
    FakeNic* nics[2] = {&fabric_.AddNic("fake0"), &fabric_.AddNic("fake1")};
    if (receiver_makes) std::swap(nics[0], nics[1]);
    sender_ = MakeHost(kSender, *nics[0], fabric_.AddNic("other0"));
    receiver_ = MakeHost(kReceiver, *nics[1], fabric_.AddNic("other1"));
    absl::StatusOr<std::unique_ptr<Listener>> listener = network_.HostNetwork(kReceiver).Listen({});
    MCCS_CHECK(listener.ok());
    listener_ = *std::move(listener);
  }

  Transport& transport() override { return receiver_->transport; }
  Transport& sender() override { return sender_->transport; }

  Ends Connect() override {
    StreamEnds ends = OpenStream(network_.HostNetwork(kSender), *listener_, [this] { Advance(); });
    return {.sender = std::move(ends.from), .receiver = std::move(ends.to)};
  }

  void Advance() override {
    MonotonicNs next = std::min(network_.NextEventTime().value_or(kNever),
                                fabric_.NextEventTime().value_or(kNever));
    for (const auto* host : {sender_.get(), receiver_.get()}) {
      const MonotonicNs deadline = host != nullptr ? host->transport.NextDeadline() : kNever;
      if (deadline > clock_.Now()) next = std::min(next, deadline);
    }
    network_.AdvanceTo(next == kNever ? clock_.Now() : std::max(next, clock_.Now()));
    fabric_.Step();
  }

  bool BreakShared(const SharedQueueKey& queues) override {
    const absl::Status why = absl::UnavailableError("broken by the test");
    sender_->pairs().Break(queues, why);
    receiver_->pairs().Break(AtReceiver(queues), why);
    return true;
  }

 private:
  static constexpr const char* kSender = "10.0.0.1";
  static constexpr const char* kReceiver = "10.0.0.2";
  static constexpr const char* kOtherNic = "10.0.1.2";  // of a host, unused by its lanes

  std::unique_ptr<RdmaHost<>> MakeHost(const char* address, FakeNic& nic, FakeNic& other) {
    const std::vector<RdmaNic> nics = {{.address = {address}, .verbs = &nic},
                                       {.address = {kOtherNic}, .verbs = &other}};
    return std::make_unique<RdmaHost<>>(nics, random_, clock_);
  }

  // The same queues at the receiver.
  static SharedQueueKey AtReceiver(const SharedQueueKey& queues) {
    return {.peer = {queues.domain.nic.address, queues.peer.port},
            .domain = {.nic = {queues.peer.host}, .tenant = queues.domain.tenant},
            .traffic_class = queues.traffic_class};
  }

  SimClock clock_;
  SimNetwork network_;
  FakeFabric fabric_;
  SeededRandom random_;
  std::unique_ptr<RdmaHost<>> sender_;
  std::unique_ptr<RdmaHost<>> receiver_;
  std::unique_ptr<Listener> listener_;
};

TransportWorldMaker Maker(const std::string& name, const FakeVerbsOptions& options,
                          bool receiver_makes = false) {
  return {name, [options, receiver_makes](uint64_t seed) {
            return std::make_unique<RdmaWorld>(seed, options, receiver_makes);
          }};
}

const auto kWorlds =
    testing::Values(Maker("Rdma", {}), Maker("RdmaReceiverMakesPairs", {}, /*receiver_makes=*/true),
                    Maker("RdmaInPortions", {.portion_bytes = 4096}),
                    Maker("RdmaLateEvents", {.event_copies = 2, .event_delay_ns = 3 * kDrainNs}));
std::string NameOf(const testing::TestParamInfo<TransportWorldMaker>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Fake, TransportContract, kWorlds, NameOf);
INSTANTIATE_TEST_SUITE_P(Fake, SharedTransport, kWorlds, NameOf);

}  // namespace rdma_transport_test
}  // namespace mccs
