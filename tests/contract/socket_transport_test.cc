// The transport contract over loopback sockets.
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/reactor.h"
#include "service/transport/socket_network.h"
#include "service/transport/stream_lane.h"
#include "service/transport/tls/tls_connection.h"
#include "tests/contract/transport_acknowledgement_contract.h"
#include "tests/contract/transport_contract.h"
#include "tests/contract/transport_gate_contract.h"
#include "tests/contract/transport_places_contract.h"
#include "tests/contract/transport_sharing_contract.h"
#include "tests/contract/transport_slotless_contract.h"
#include "tests/contract/transport_stream_contract.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/trust/new_certificates.h"
#include "tests/unit/trust/tls_context_of.h"

namespace mccs {
namespace socket_transport_test {

class SocketWorld final : public TransportWorld {
 public:
  explicit SocketWorld(std::string host, bool encrypted = false) : host_(std::move(host)) {
    if (encrypted) {
      certificates_.emplace();
      context_ = ContextOf(certificates_->Host("h1"), certificates_->now_s());
    }
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
        return certificates_.has_value() ? Secured(*std::move(sender), *std::move(receiver))
                                         : Ends{*std::move(sender), *std::move(receiver)};
      }
    }
  }

  void Advance() override { network_.Poll(); }

 private:
  // As lanes get them: after the handshake.
  Ends Secured(std::unique_ptr<Connection> sender, std::unique_ptr<Connection> receiver) {
    auto client =
        std::make_unique<TlsConnection>(std::move(sender), context_, PeerSecurity::End::kClient);
    auto server =
        std::make_unique<TlsConnection>(std::move(receiver), context_, PeerSecurity::End::kServer);
    while (client->handshaking() || server->handshaking()) {
      for (TlsConnection* end : {client.get(), server.get()}) {
        std::byte none;
        const iovec piece{.iov_base = &none, .iov_len = sizeof(none)};
        MCCS_CHECK(*end->Read({&piece, 1}) == 0);
      }
      network_.Poll();
    }
    return {.sender = std::move(client), .receiver = std::move(server)};
  }

  const std::string host_;
  std::optional<NewCertificates> certificates_;  // of encrypted connections
  TlsContext context_;
  std::unique_ptr<Reactor> reactor_ = *Reactor::Create();
  SocketNetwork network_{*reactor_};
  StreamTransport transport_;
  std::unique_ptr<Listener> listener_;
};

const auto kWorlds = testing::Values(
    TransportWorldMaker{"IPv4",
                        [](uint64_t) { return std::make_unique<SocketWorld>("127.0.0.1"); }},
    TransportWorldMaker{"IPv6", [](uint64_t) { return std::make_unique<SocketWorld>("::1"); }},
    TransportWorldMaker{"Encrypted", [](uint64_t) {
                          return std::make_unique<SocketWorld>("127.0.0.1", /*encrypted=*/true);
                        }});
std::string NameOf(const testing::TestParamInfo<TransportWorldMaker>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Sockets, TransportContract, kWorlds, NameOf);
INSTANTIATE_TEST_SUITE_P(Sockets, SharedTransport, kWorlds, NameOf);
INSTANTIATE_TEST_SUITE_P(Sockets, StreamWakes, kWorlds, NameOf);

// As in two daemons: each end has its own thread, reactor and network, and sleeps when it is idle.
TEST(SocketLanes, TwoEnginesInTwoThreadsSleepAndWakeEachOther) {
  constexpr SliceNumber kSlices = 300;
  constexpr LaneShape kShape{.slots = 4, .slot_bytes = 70'000};
  auto bytes_of = [](SliceNumber n) { return n % 3 == 0 ? size_t{8} : size_t{60'000} + n; };
  std::unique_ptr<Reactor> reactor = *Reactor::Create();
  SocketNetwork network(*reactor);
  std::unique_ptr<Listener> listener = *network.Listen({.host = "127.0.0.1", .port = 0});
  const Endpoint there = listener->local();

  std::thread sender([&] {
    std::unique_ptr<Reactor> own = *Reactor::Create();
    SocketNetwork own_network(*own);
    std::vector<std::byte> source(kShape.slot_bytes, std::byte{7});
    StreamTransport transport;
    std::unique_ptr<SendLane> lane = transport.MakeSendLane({}, kShape);
    lane->Attach(*own_network.Connect(there, {}));
    while (lane->acknowledged() < kSlices && lane->status().ok()) {
      bool moved = false;
      while (lane->next() < kSlices) {
        const RegionSpan piece = SpanAt(source.data(), bytes_of(lane->next()));
        if (!lane->Post(piece, {})->has_value()) break;
        moved = true;
      }
      if (!lane->Poll() && !moved) own->Wait(-1);
    }
    EXPECT_TRUE(lane->status().ok()) << lane->status();
  });

  std::vector<std::byte> slots(size_t{kShape.slots} * kShape.slot_bytes);
  StreamTransport transport;
  std::unique_ptr<RecvLane> lane = transport.MakeRecvLane({}, kShape, SpanOf(slots));
  std::unique_ptr<Connection> accepted;
  while (accepted == nullptr) {
    reactor->Wait(-1);
    accepted = *listener->Accept();
  }
  lane->Attach(std::move(accepted));
  SliceNumber landed = 0;
  while (lane->status().ok()) {  // until the sender has its last acknowledgement and closes
    const bool moved = lane->Poll();
    const SliceNumber before = landed;
    while (landed < kSlices && lane->Landed(landed) != Landing::kNotYet) {
      EXPECT_EQ(lane->Bytes(landed), bytes_of(landed));
      lane->Release(landed++);
    }
    if (!moved && landed == before) reactor->Wait(-1);
  }
  sender.join();
  EXPECT_EQ(landed, kSlices);
}

}  // namespace socket_transport_test
}  // namespace mccs
