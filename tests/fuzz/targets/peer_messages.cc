// Messages between daemons (proto/peer.proto) as bytes on a control link. The link delivers
// messages or fails for good; what passes for a roster or a strategy is checked before its use.
//
// FUZZES: service/communicator/links/peer_link.cc service/communicator/links/star_protocol.cc
// FUZZES: service/communicator/membership/membership.cc
#include <arpa/inet.h>

#include <memory>

#include "base/check.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/links/star_protocol.h"
#include "service/communicator/membership/membership.h"
#include "service/communicator/membership/tree_relay.h"
#include "service/communicator/strategy/strategy.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/fuzz/targets/input_stream.h"

namespace mccs {
namespace peer_messages_fuzz {

void CheckError(const absl::Status& status) {
  MCCS_CHECK(status.ok() || !status.message().empty());
}

// A communicator of two ranks: rank 0 is on this host.
void CheckRosterBytes(const std::string& bytes) {
  peer::Roster roster;
  if (const absl::Status parsed = ParseRelayed(bytes, &roster); !parsed.ok()) {
    return CheckError(parsed);
  }
  // The input cannot guess these.
  roster.set_tenant("red");
  if (roster.hosts_size() > 0) {
    roster.mutable_hosts(0)->set_name("h0");
    roster.mutable_hosts(0)->set_endpoint_host("10.0.0.1");
    roster.mutable_hosts(0)->set_endpoint_port(7400);
  }
  const auto members = CheckRoster(std::move(roster), {.id = CommId(1),
                                                       .any_id = true,
                                                       .tenant = "red",
                                                       .host = "h0",
                                                       .endpoint = {"10.0.0.1", 7400},
                                                       .ranks = 2,
                                                       .locals = {Rank(0)}});
  if (!members.ok()) return CheckError(members.status());
  MCCS_CHECK(members->ranks() == 2 && members->layout.rank_count() == 2);
  for (int h = 0; h < members->hosts(); ++h) {
    members->EndpointOf(HostIndex(h));
    members->RdmaAddressesOf(HostIndex(h));
  }
  MCCS_CHECK(members->HostOf(Rank(0)) == members->self);
}

void CheckStrategyBytes(const std::string& bytes) {
  strategy::Strategy message;
  if (const absl::Status parsed = ParseRelayed(bytes, &message); !parsed.ok()) {
    return CheckError(parsed);
  }
  CheckError(StrategyFromProto(message, 2).status());
}

void Handle(const peer::Message& message) {
  MCCS_CHECK(!NameOf(message).empty());
  for (const StarPhase phase :
       {StarPhase::kLinking, StarPhase::kOpening, StarPhase::kActive, StarPhase::kEnded}) {
    const absl::Status of_leader = CheckLegal(message, /*from_leader=*/true, phase);
    const absl::Status of_member = CheckLegal(message, /*from_leader=*/false, phase);
    CheckError(of_leader);
    CheckError(of_member);
    const absl::Status why = Rejected("h1", message, of_leader);
    MCCS_CHECK(of_leader.ok() == why.ok());
  }
  if (message.has_failed()) {
    const absl::Status failure =
        StatusFromPeer(message.failed().error_code(), message.failed().message());
    MCCS_CHECK(!failure.ok() && failure.message().size() <= kMaxPeerTextBytes + 8);
    MCCS_CHECK(failure.message().find('\n') == std::string_view::npos);
  }
  if (message.has_roster()) CheckRosterBytes(message.roster());
  if (message.has_open()) CheckStrategyBytes(message.open().strategy());
}

void Run(FuzzInput input) {
  auto stream = std::make_shared<InputStream>();
  const uint8_t kind = input.Byte();
  PeerLink link(std::make_unique<InputConnection>(stream),
                kind % 4 == 0 ? kMaxHelloBytes : kMaxPeerMessageBytes);
  const bool framed = kind % 2 == 0;  // the target adds lengths
  while (!input.empty()) {
    const size_t bytes = input.Take<uint16_t>() % 1024;
    const std::span<const uint8_t> piece = input.Bytes(bytes);
    if (framed) stream->Append(htonl(static_cast<uint32_t>(piece.size())));
    stream->to_read.append(piece.begin(), piece.end());
  }
  stream->broken = kind % 8 == 7;
  // A message of each call, until nothing more is there.
  for (size_t i = 0; i <= stream->to_read.size(); ++i) {
    const auto message = link.Receive();
    if (!message.ok()) {
      CheckError(message.status());
      MCCS_CHECK(!link.status().ok());
      break;
    }
    if (!message->has_value()) break;
    Handle(**message);
    // This daemon would send the same message.
    peer::Message again;
    const PeerFrame frame = MakeFrame(**message);
    MCCS_CHECK(again.ParseFromString(frame->substr(sizeof(uint32_t))));
    MCCS_CHECK(again.SerializeAsString() == (*message)->SerializeAsString());
  }
  MCCS_CHECK(link.buffered_bytes() <= stream->to_read.size());
}

const FuzzTarget kTarget("peer_messages", Run);

}  // namespace peer_messages_fuzz
}  // namespace mccs
