// The transport contract over loopback sockets.
#include <memory>

#include "base/check.h"
#include "base/reactor.h"
#include "service/transport/socket_network.h"
#include "service/transport/stream_lane.h"
#include "tests/contract/transport_contract.h"
#include "tests/contract/transport_failure_contract.h"

namespace mccs {
namespace {

class SocketWorld final : public TransportWorld {
 public:
  explicit SocketWorld(std::string host) : host_(std::move(host)) {
    absl::StatusOr<std::unique_ptr<Listener>> listener =
        network_.Listen({.host = host_, .port = 0});
    MCCS_CHECK(listener.ok());
    listener_ = *std::move(listener);
  }

  Transport& transport() override { return transport_; }

  Ends Connect() override {
    absl::StatusOr<std::unique_ptr<Connection>> sender = network_.Connect(listener_->local(), {});
    MCCS_CHECK(sender.ok());
    for (;;) {
      reactor_->Wait(-1);
      absl::StatusOr<std::unique_ptr<Connection>> receiver = listener_->Accept();
      MCCS_CHECK(receiver.ok());
      if (*receiver != nullptr) {
        return {.sender = *std::move(sender), .receiver = *std::move(receiver)};
      }
    }
  }

  void Advance() override { network_.Poll(); }

 private:
  const std::string host_;
  std::unique_ptr<Reactor> reactor_ = *Reactor::Create();
  SocketNetwork network_{*reactor_};
  StreamTransport transport_;
  std::unique_ptr<Listener> listener_;
};

INSTANTIATE_TEST_SUITE_P(
    Sockets, TransportContract,
    testing::Values(
        TransportWorldMaker{"IPv4",
                            [](uint64_t) { return std::make_unique<SocketWorld>("127.0.0.1"); }},
        TransportWorldMaker{"IPv6", [](uint64_t) { return std::make_unique<SocketWorld>("::1"); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mccs
