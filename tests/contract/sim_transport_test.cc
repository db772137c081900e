// The transport contract over the simulator's network.
#include <memory>
#include <utility>

#include "base/check.h"
#include "service/transport/stream_lane.h"
#include "tests/contract/transport_acknowledgement_contract.h"
#include "tests/contract/transport_contract.h"
#include "tests/contract/transport_gate_contract.h"
#include "tests/contract/transport_places_contract.h"
#include "tests/contract/transport_sharing_contract.h"
#include "tests/contract/transport_slotless_contract.h"
#include "tests/contract/transport_stream_contract.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_streams.h"

namespace mccs {
namespace sim_transport_test {

class SimTransportWorld final : public TransportWorld {
 public:
  SimTransportWorld(uint64_t seed, const SimNetworkOptions& options)
      : network_(clock_, seed, options) {
    absl::StatusOr<std::unique_ptr<Listener>> listener =
        network_.HostNetwork("10.0.0.2").Listen({});
    MCCS_CHECK(listener.ok());
    listener_ = *std::move(listener);
  }

  Transport& transport() override { return transport_; }

  Ends Connect() override {
    StreamEnds ends =
        OpenStream(network_.HostNetwork("10.0.0.1"), *listener_, [this] { Advance(); });
    return {.sender = std::move(ends.from), .receiver = std::move(ends.to)};
  }

  void Advance() override { network_.AdvanceTo(network_.NextEventTime().value_or(clock_.Now())); }

 private:
  SimClock clock_;
  SimNetwork network_;
  StreamTransport transport_;
  std::unique_ptr<Listener> listener_;
};

TransportWorldMaker Maker(const std::string& name, const SimNetworkOptions& options) {
  return {name,
          [options](uint64_t seed) { return std::make_unique<SimTransportWorld>(seed, options); }};
}

const auto kWorlds = testing::Values(
    Maker("Lan", {}),
    Maker("CrumbsOfAHundredBytes", {.max_portion_bytes = 100, .buffer_bytes = 1500}));
std::string NameOf(const testing::TestParamInfo<TransportWorldMaker>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Simulated, TransportContract, kWorlds, NameOf);
INSTANTIATE_TEST_SUITE_P(Simulated, SharedTransport, kWorlds, NameOf);
INSTANTIATE_TEST_SUITE_P(Simulated, StreamWakes, kWorlds, NameOf);

}  // namespace sim_transport_test
}  // namespace mccs
