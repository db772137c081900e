#include "service/transport/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/limited_warnings.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/mentions.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace handshake_test {

using testing::HasSubstr;

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTest() : network_(clock_, 1) { Restart({}); }

  void Restart(const PeerListenerLimits& limits) {
    server_.reset();
    server_ = std::make_unique<PeerListener>(
        *network_.HostNetwork("server").Listen({.host = "", .port = 7400}),
        [this](const Preamble& preamble) -> absl::StatusOr<std::optional<Secret>> {
          ++lookups_;
          if (!rejection_.ok()) return rejection_;
          auto known = secrets_.find(preamble.comm_id);
          if (known == secrets_.end()) return std::nullopt;
          return known->second;
        },
        server_random_, log_, limits, /*security=*/nullptr, &counters_);
  }

  std::unique_ptr<Connection> Dial(const std::string& from = "client") {
    return *network_.HostNetwork(from).Connect({.host = "server", .port = 7400}, {});
  }

  static wire::PeerHello Hello(ConnectionPurpose purpose) {
    wire::PeerHello hello{};
    hello.magic = wire::kPeerMagic;
    hello.version = wire::kPeerVersion;
    hello.purpose = static_cast<uint8_t>(purpose);
    return hello;
  }
  template <typename Frame>
  static std::string BytesOf(const Frame& frame) {
    return {reinterpret_cast<const char*>(&frame), sizeof(frame)};
  }
  // A connection on which a client has sent these first bytes.
  std::unique_ptr<Connection> DialAndSay(const std::string& bytes,
                                         const std::string& from = "client") {
    std::unique_ptr<Connection> connection = Dial(from);
    Run(nullptr, kNsPerMs);
    Say(*connection, bytes);
    Run(nullptr, kNsPerMs);
    return connection;
  }
  static wire::PeerChallenge ReadChallenge(Connection& connection) {
    wire::PeerChallenge challenge{};
    const iovec piece{.iov_base = &challenge, .iov_len = sizeof(challenge)};
    EXPECT_EQ(*connection.Read({&piece, 1}), sizeof(challenge));
    return challenge;
  }

  // Clients at `from` that name communicators which never exist.
  void Flood(const std::string& from, int outsiders) {
    wire::PeerHello hello = Hello(ConnectionPurpose::kMember);
    for (int i = 0; i < outsiders; ++i) {
      hello.comm_id = 1000 + static_cast<uint64_t>(i);
      outsiders_.push_back(DialAndSay(BytesOf(hello), from));
    }
  }

  std::unique_ptr<ClientHandshake> StartClient(const Preamble& preamble, const Secret& secret) {
    return std::make_unique<ClientHandshake>(Dial(), preamble, secret, client_random_,
                                             clock_.Now() + 60 * kNsPerSec);
  }

  // Runs all handshakes until `time`; authenticated peers are in peers_, the client's result in
  // client_result_.
  void Run(ClientHandshake* client, int64_t ns) {
    const MonotonicNs end = clock_.Now() + ns;
    bool ended = false;
    for (;;) {
      for (Peer& peer : server_->Poll(clock_.Now())) peers_.push_back(std::move(peer));
      if (client != nullptr && !ended) {
        client_result_ = client->Poll(clock_.Now());
        ended = !client_result_.ok() || *client_result_ != nullptr;
      }
      MonotonicNs next = std::min(end, clock_.Now() + kNsPerSec / 4);
      if (network_.NextEventTime()) next = std::min(next, *network_.NextEventTime());
      if (clock_.Now() >= end) return;
      network_.AdvanceTo(next);
    }
  }

  static void Say(Connection& connection, std::string_view text) {
    const iovec piece{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    absl::StatusOr<size_t> written = connection.Write({&piece, 1});
    ASSERT_TRUE(written.ok() && *written == text.size()) << written.status();
  }

  static constexpr Secret kSecret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  static constexpr Secret kOther = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17};
  const Preamble lane_{.purpose = ConnectionPurpose::kLane,
                       .comm_id = CommId(42),
                       .epoch = Epoch(3),
                       .channel = ChannelId(1),
                       .from_host = HostIndex(2),
                       .to_host = HostIndex(0)};

  SimClock clock_;
  SimNetwork network_;
  SeededRandom client_random_{1};
  SeededRandom server_random_{2};
  RecordingLog log_;
  std::map<CommId, Secret> secrets_ = {{CommId(42), kSecret}};
  absl::Status rejection_;
  int lookups_ = 0;
  PeerListenerCounters counters_;
  std::unique_ptr<PeerListener> server_;
  std::vector<std::unique_ptr<Connection>> outsiders_;
  std::vector<Peer> peers_;
  absl::StatusOr<std::unique_ptr<Connection>> client_result_ = nullptr;
};

TEST_F(HandshakeTest, BothEndsGetAConnectionThatCarriesWhatFollows) {
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), kNsPerMs);
  ASSERT_TRUE(client_result_.ok()) << client_result_.status();
  ASSERT_NE(*client_result_, nullptr);
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(peers_[0].preamble, lane_);
  EXPECT_TRUE(log_.lines.empty());
  Say(**client_result_, "payload");
  Run(nullptr, kNsPerMs);
  char got[16] = "";
  const iovec piece{.iov_base = got, .iov_len = sizeof(got)};
  EXPECT_EQ(*peers_[0].connection->Read({&piece, 1}), 7u);
  EXPECT_STREQ(got, "payload");
}

TEST_F(HandshakeTest, EveryPurposeGoesThrough) {
  for (ConnectionPurpose purpose : {ConnectionPurpose::kJoin, ConnectionPurpose::kMember}) {
    auto client = StartClient({.purpose = purpose, .comm_id = CommId(42)}, kSecret);
    Run(client.get(), kNsPerMs);
    ASSERT_TRUE(client_result_.ok()) << client_result_.status();
  }
  ASSERT_EQ(peers_.size(), 2u);
  EXPECT_EQ(peers_[0].preamble.purpose, ConnectionPurpose::kJoin);
  EXPECT_EQ(peers_[1].preamble.purpose, ConnectionPurpose::kMember);
}

TEST_F(HandshakeTest, RejectsAnotherSecret) {
  auto client = StartClient(lane_, kOther);
  Run(client.get(), kNsPerSec);
  EXPECT_EQ(client_result_.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(client_result_.status().message(),
              Mentions("communicator 000000000000002a", "epoch 3", "channel 1", "host 2", "host 0",
                       "server:7400", "secret"));
  EXPECT_TRUE(peers_.empty());
}

// Meanwhile another communicator with the same id may have replaced the one that was meant.
TEST_F(HandshakeTest, AConnectionHasItsProvenSecret) {
  auto client = StartClient(lane_, kSecret);
  while (lookups_ == 0) Run(client.get(), kNsPerUs);
  secrets_[CommId(42)] = kOther;
  Run(client.get(), kNsPerMs);
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(peers_[0].secret, kSecret);
}

// A client that ignores whether the server knows the secret, and guesses its own proof.
TEST_F(HandshakeTest, DropsAFalseProofAndLogs) {
  wire::PeerHello hello = Hello(ConnectionPurpose::kJoin);
  hello.comm_id = 42;
  std::unique_ptr<Connection> liar = DialAndSay(BytesOf(hello));
  // Reflecting the server's own proof is not accepted.
  Say(*liar, BytesOf(ReadChallenge(*liar).proof));
  Run(nullptr, kNsPerMs);
  EXPECT_TRUE(peers_.empty());
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0], HasSubstr("without that communicator's secret"));
}

TEST_F(HandshakeTest, AProofIsBoundToEveryFieldAndToTheNonce) {
  wire::PeerHello hello{};
  hello.comm_id = 42;
  wire::Nonce nonce{};
  const auto proof = [&](const wire::PeerHello& h, const wire::Nonce& n) {
    return wire::MakeProof(kSecret, wire::ProofSide::kClient, h, n);
  };
  const wire::Proof good = proof(hello, nonce);
  EXPECT_TRUE(wire::ProofsEqual(good, proof(hello, nonce)));
  for (size_t byte = 0; byte < sizeof(hello); ++byte) {
    wire::PeerHello changed = hello;
    reinterpret_cast<uint8_t*>(&changed)[byte] ^= 1;
    EXPECT_FALSE(wire::ProofsEqual(good, proof(changed, nonce))) << "byte " << byte;
  }
  for (size_t byte = 0; byte < nonce.size(); ++byte) {
    wire::Nonce changed = nonce;
    changed[byte] ^= 1;
    EXPECT_FALSE(wire::ProofsEqual(good, proof(hello, changed))) << "byte " << byte;
  }
  EXPECT_FALSE(
      wire::ProofsEqual(good, wire::MakeProof(kSecret, wire::ProofSide::kServer, hello, nonce)));
}

TEST_F(HandshakeTest, AnEarlyClientWaitsForTheCommunicator) {
  secrets_.clear();
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), 10 * kNsPerSec);  // longer than the timeout of a silent client
  ASSERT_TRUE(client_result_.ok()) << client_result_.status();
  EXPECT_EQ(*client_result_, nullptr);
  EXPECT_EQ(server_->pending(), 1u);
  secrets_[CommId(42)] = kSecret;
  server_->RetryLookup(CommId(42));
  Run(client.get(), kNsPerSec);
  ASSERT_TRUE(client_result_.ok()) << client_result_.status();
  EXPECT_NE(*client_result_, nullptr);
  EXPECT_EQ(peers_.size(), 1u);
}

// The engine has a turn every few microseconds, and a handshake that waits for half a minute must
// cost none of them.
TEST_F(HandshakeTest, RepeatsALookupOnlyAfterAChange) {
  secrets_.clear();
  auto client = StartClient(lane_, kSecret);
  Flood("outsider", 3);
  Run(client.get(), 10 * kNsPerSec);
  EXPECT_EQ(lookups_, 4);
  server_->RetryLookup(CommId(41));
  Run(client.get(), kNsPerSec);
  EXPECT_EQ(lookups_, 4) << "that was for another communicator";
  server_->RetryLookup(CommId(42));
  Run(client.get(), kNsPerSec);
  EXPECT_EQ(lookups_, 5) << "but it is still unknown";
  secrets_[CommId(42)] = kSecret;
  server_->RetryLookup(CommId(42));
  Run(client.get(), kNsPerSec);
  EXPECT_EQ(peers_.size(), 1u);
  EXPECT_EQ(server_->pending(), 3u);
}

TEST_F(HandshakeTest, RejectsAnUnknownCommunicatorAfterATimeout) {
  secrets_.clear();
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), 40 * kNsPerSec);
  EXPECT_EQ(client_result_.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server_->pending(), 0u);
  EXPECT_EQ(server_->NextDeadline(), std::nullopt);
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0], HasSubstr("communicator 000000000000002a"));
}

TEST_F(HandshakeTest, TheLookupMayReject) {
  rejection_ = absl::PermissionDeniedError("the communicator belongs to another tenant");
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), kNsPerSec);
  EXPECT_EQ(client_result_.status().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0], HasSubstr("another tenant"));
}

TEST_F(HandshakeTest, ReportsAnotherVersionToBothEnds) {
  wire::PeerHello hello{};
  hello.magic = wire::kPeerMagic;
  hello.version = 99;
  const wire::PeerChallenge challenge = ReadChallenge(*DialAndSay(BytesOf(hello)));
  EXPECT_EQ(challenge.verdict, wire::PeerVerdict::kWrongVersion);
  EXPECT_EQ(challenge.version, wire::kPeerVersion);
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0], HasSubstr("version 99 of the daemons' protocol, this daemon " +
                                       std::to_string(wire::kPeerVersion)));
}

TEST_F(HandshakeTest, ReportsAForeignServerToTheClient) {
  server_.reset();
  auto listener = *network_.HostNetwork("server").Listen({.host = "", .port = 7400});
  wire::PeerChallenge other{};
  other.magic = wire::kPeerMagic;
  other.version = 7;
  other.verdict = wire::PeerVerdict::kWrongVersion;
  const std::vector<std::pair<std::string, std::string>> answers = {
      {BytesOf(other),
       "version 7 of the daemons' protocol, this daemon " + std::to_string(wire::kPeerVersion)},
      {"HTTP/1.1 400 Bad Request" + std::string(64, ' '), "first bytes are 'HTTP/1.1'"}};
  for (const auto& [answer, expected] : answers) {
    auto client = StartClient(lane_, kSecret);
    while (network_.NextEventTime()) network_.AdvanceTo(*network_.NextEventTime());
    std::unique_ptr<Connection> server = *listener->Accept();
    Say(*server, answer);
    while (network_.NextEventTime()) network_.AdvanceTo(*network_.NextEventTime());
    const absl::Status status = client->Poll(clock_.Now()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(expected));
  }
}

TEST_F(HandshakeTest, GarbageIsDroppedAtItsFirstBytes) {
  const auto stray = DialAndSay("GET");
  EXPECT_EQ(server_->pending(), 0u);
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0],
              HasSubstr("first bytes are 'GET'; it may be a rank with the real NCCL"));
  EXPECT_EQ(counters_.incomplete.value(), 1u);
  EXPECT_EQ(lookups_, 0);
}

TEST_F(HandshakeTest, DropsSilentClientsAtTheDeadline) {
  std::unique_ptr<Connection> silent = Dial();
  Run(nullptr, kNsPerMs);
  const MonotonicNs deadline = server_->NextDeadline().value();
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), kNsPerMs);
  EXPECT_EQ(peers_.size(), 1u);
  Run(nullptr, deadline - clock_.Now());
  EXPECT_EQ(server_->pending(), 0u);
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0], HasSubstr("the peer sent only 0 of the 64 bytes"));
}

TEST_F(HandshakeTest, AFloodDisplacesItsOldestConnections) {
  Restart({.timeouts = {}, .pending = 8});
  std::vector<std::unique_ptr<Connection>> outsiders;
  for (int i = 0; i < 30; ++i) outsiders.push_back(Dial());
  Run(nullptr, kNsPerMs);
  EXPECT_LE(server_->pending(), 8u);
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), kNsPerMs);
  EXPECT_EQ(peers_.size(), 1u);
}

TEST_F(HandshakeTest, AFloodDisplacesNoOtherAddress) {
  Restart({.timeouts = {}, .pending = 8});
  secrets_.clear();
  auto client = StartClient(lane_, kSecret);
  auto other = StartClient({.purpose = ConnectionPurpose::kMember, .comm_id = CommId(42)}, kSecret);
  Run(client.get(), kNsPerMs);
  while (other->Poll(clock_.Now()).ok() && server_->pending() < 2) Run(nullptr, kNsPerMs);
  Flood("outsider", 3 * LimitedWarnings::kPerMinute);
  EXPECT_EQ(server_->pending(), 8u);
  EXPECT_EQ(log_.lines.size(), static_cast<size_t>(LimitedWarnings::kPerMinute));
  EXPECT_THAT(log_.lines.back(), HasSubstr("further lines for this address"));
  EXPECT_THAT(log_.lines.back(), HasSubstr("most of them from outsider"));
  EXPECT_GT(counters_.displaced.value(), 0u);
  EXPECT_EQ(counters_.accepted.value(), 0u);
  secrets_[CommId(42)] = kSecret;
  server_->RetryLookup(CommId(42));
  Run(client.get(), kNsPerMs);
  ASSERT_TRUE(client_result_.ok()) << client_result_.status();
  EXPECT_NE(*client_result_, nullptr);
  EXPECT_EQ(peers_.size(), 1u);
}

// A machine has all addresses of a /64.
TEST_F(HandshakeTest, ManyAddressesOfANetworkDisplaceNoOther) {
  Restart({.timeouts = {}, .pending = 8});
  secrets_.clear();
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), kNsPerMs);
  Flood("client", 2);
  for (int i = 1; i <= 20; ++i) outsiders_.push_back(Dial("fd00:0:0:1::" + std::to_string(i)));
  Run(nullptr, kNsPerMs);
  EXPECT_EQ(server_->pending(), 8u);
  EXPECT_EQ(counters_.displaced.value(), 15u);
  secrets_[CommId(42)] = kSecret;
  server_->RetryLookup(CommId(42));
  Run(client.get(), kNsPerMs);
  EXPECT_EQ(peers_.size(), 1u) << "the client's first connection is open";
}

// Else the first address in alphabetical order would never get a connection.
TEST_F(HandshakeTest, OfAddressesWithEquallyManyTheOldestIsDisplaced) {
  Restart({.timeouts = {}, .pending = 8});
  for (int i = 7; i >= 0; --i) {
    outsiders_.push_back(Dial("outsider-" + std::to_string(i)));
    Run(nullptr, kNsPerMs);
  }
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), kNsPerMs);
  EXPECT_EQ(counters_.displaced.value(), 1u);
  EXPECT_EQ(peers_.size(), 1u);
  EXPECT_TRUE(log_.Contains("most of them from outsider-7;"));
}

// Hosts of one rack may share a /64.
TEST_F(HandshakeTest, AFloodDisplacesNoOtherAddressOfItsNetwork) {
  Restart({.timeouts = {}, .pending = 8});
  Flood("fd00:0:0:1::1", 2);
  Flood("fd00:0:0:1::2", 30);
  EXPECT_EQ(server_->pending(), 8u);
  EXPECT_TRUE(log_.Contains("most of them from fd00:0:0:1::2;"));
  EXPECT_FALSE(log_.Contains("most of them from fd00:0:0:1::1;"));
}

TEST_F(HandshakeTest, GarbageFromOneAddressDoesNotFillTheLog) {
  for (int i = 0; i < 3 * LimitedWarnings::kPerMinute; ++i) {
    DialAndSay("GET", "outsider");
  }
  EXPECT_EQ(log_.lines.size(), static_cast<size_t>(LimitedWarnings::kPerMinute));
  const auto stray = DialAndSay("GET");
  EXPECT_THAT(log_.lines.back(), HasSubstr("first bytes are 'GET'"))
      << "another address's warnings are logged";
  EXPECT_EQ(log_.lines.size(), static_cast<size_t>(LimitedWarnings::kPerMinute) + 1);
}

TEST_F(HandshakeTest, AnUnreachableServerTimesOut) {
  network_.Partition("client", "server");
  auto client = StartClient(lane_, kSecret);
  Run(client.get(), 61 * kNsPerSec);
  EXPECT_EQ(client_result_.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(client_result_.status().message(), HasSubstr("connect timed out"));
}

TEST_F(HandshakeTest, NumbersOutOfRangeAndUnknownPurposesAreRejected) {
  for (int wrong = 0; wrong < 3; ++wrong) {
    wire::PeerHello hello = Hello(wrong == 0 ? ConnectionPurpose::kJoin : ConnectionPurpose::kLane);
    if (wrong == 0) hello.epoch = 1;
    if (wrong == 1) hello.channel = -1;
    if (wrong == 2) hello.purpose = 77;
    const auto peer = DialAndSay(BytesOf(hello));
    EXPECT_EQ(server_->pending(), 0u);
  }
  EXPECT_EQ(lookups_, 0);
  EXPECT_EQ(log_.lines.size(), 3u);
}

}  // namespace handshake_test
}  // namespace mccs
