#include "service/transport/tls/tls_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/transport/peer_listener.h"
#include "service/transport/tls/handshake_thread.h"
#include "service/transport/tls/tls_connection.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/mentions.h"
#include "tests/unit/recording_log.h"
#include "tests/unit/trust/new_certificates.h"
#include "tests/unit/trust/tls_context_of.h"

namespace mccs {
namespace tls_peers_test {

using testing::HasSubstr;

constexpr Secret kSecret = {1, 2, 3};
const Preamble kMemberLink = {.purpose = ConnectionPurpose::kMember, .comm_id = CommId(42)};
const Preamble kLaneLink = {.purpose = ConnectionPurpose::kLane, .comm_id = CommId(42)};

class TlsPeersTest : public testing::Test {
 protected:
  TlsPeersTest() : network_(clock_, 1) {}

  std::unique_ptr<TlsPeers> PeersOf(const TlsFiles& files, bool secures_lanes = false) {
    return PeersAt(wall_clock_, files, secures_lanes);
  }
  std::unique_ptr<TlsPeers> PeersAt(const WallClock& clock, const TlsFiles& files,
                                    bool secures_lanes = false) {
    absl::StatusOr<std::unique_ptr<TlsPeers>> peers = TlsPeers::Make(
        files, clock, log_, {.secures_lanes = secures_lanes, .refresh_ns = kNever / 4});
    EXPECT_TRUE(peers.ok()) << peers.status();
    return *std::move(peers);
  }
  // The certificate has expired since the daemon read it.
  std::unique_ptr<TlsPeers> ExpiredPeersOf(const std::string& host) {
    const int64_t now_s = cluster_.now_s();
    earlier_.now = (now_s - 3600) * kNsPerSec;
    return PeersAt(earlier_, cluster_.Issue({kDefaultTrustDomain, Identity::Kind::kHost, host},
                                            Validity{now_s - NewCertificates::kDay, now_s - 60}));
  }

  void Serve(PeerSecurity* security, const PeerListenerLimits& limits = {}) {
    server_ = std::make_unique<PeerListener>(
        *network_.HostNetwork("server").Listen({.host = "", .port = 7400}),
        [this](const Preamble&) { return secret_; }, server_random_, log_, limits, security,
        &counters_);
  }

  std::unique_ptr<Connection> Dial(const std::string& from = "client") {
    return *network_.HostNetwork(from).Connect({.host = "server", .port = 7400}, {});
  }

  // Makes a handshake of a client; server and client results are in peers_ and result_.
  void Connect(PeerSecurity* security, const Preamble& preamble = kMemberLink) {
    client_ = std::make_unique<ClientHandshake>(Dial(), preamble, kSecret, client_random_,
                                                clock_.Now() + 60 * kNsPerSec, security);
    result_ = nullptr;
    Run(10 * kNsPerMs);
  }

  void Run(int64_t ns) {
    const MonotonicNs end = clock_.Now() + ns;
    for (bool ended = client_ == nullptr; clock_.Now() < end;) {
      for (Peer& peer : server_->Poll(clock_.Now())) peers_.push_back(std::move(peer));
      if (!ended) {
        result_ = client_->Poll(clock_.Now());
        ended = !result_.ok() || *result_ != nullptr;
      }
      MonotonicNs next = end;
      if (network_.NextEventTime()) next = std::min(next, *network_.NextEventTime());
      if (server_->NextDeadline() == 0) next = std::min(next, clock_.Now() + kNsPerUs);
      network_.AdvanceTo(next);
    }
  }

  // Sends bytes from one end to the other, which reads portions of `portion` bytes.
  std::string Transfer(Connection& from, Connection& to, const std::string& bytes, size_t portion) {
    std::string received;
    std::string buffer(portion, '\0');
    size_t sent = 0;
    for (int turn = 0; turn < 100000 && received.size() < bytes.size(); ++turn) {
      if (sent < bytes.size() && from.writable()) {
        // Two pieces, of which the first is short.
        const size_t first = std::min<size_t>(3, bytes.size() - sent);
        const iovec pieces[] = {
            {.iov_base = const_cast<char*>(bytes.data()) + sent, .iov_len = first},
            {.iov_base = const_cast<char*>(bytes.data()) + sent + first,
             .iov_len = bytes.size() - sent - first}};
        const absl::StatusOr<size_t> written = from.Write(pieces);
        EXPECT_TRUE(written.ok()) << written.status();
        sent += written.value_or(0);
      }
      while (to.readable()) {
        const iovec piece{.iov_base = buffer.data(), .iov_len = buffer.size()};
        const absl::StatusOr<size_t> got = to.Read({&piece, 1});
        EXPECT_TRUE(got.ok()) << got.status();
        if (got.value_or(0) == 0) break;
        received.append(buffer, 0, *got);
      }
      if (network_.NextEventTime()) network_.AdvanceTo(*network_.NextEventTime());
    }
    EXPECT_EQ(sent, bytes.size());
    return received;
  }

  static std::string ManyBytes(size_t count) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 31 + i / 253);
    return bytes;
  }

  std::string LogText() const {
    std::string all;
    for (const std::string& line : log_.lines) absl::StrAppend(&all, line, "\n");
    return all;
  }

  SystemWallClock wall_clock_;
  ManualWallClock earlier_;  // of ExpiredPeersOf
  SimClock clock_;
  SimNetwork network_;
  SeededRandom client_random_{1};
  SeededRandom server_random_{2};
  RecordingLog log_;
  NewCertificates cluster_;
  const std::unique_ptr<TlsPeers> h1_ = PeersOf(cluster_.Host("h1"));
  const std::unique_ptr<TlsPeers> h2_ = PeersOf(cluster_.Host("h2"));
  PeerListenerCounters counters_;
  std::optional<Secret> secret_ = kSecret;  // that the server knows
  std::unique_ptr<PeerListener> server_;
  std::unique_ptr<ClientHandshake> client_;
  absl::StatusOr<std::unique_ptr<Connection>> result_ = nullptr;
  std::vector<Peer> peers_;
};

TEST_F(TlsPeersTest, BothEndsKnowWhoseDaemonTheOtherIs) {
  Serve(h2_.get());
  Connect(h1_.get());
  ASSERT_TRUE(result_.ok()) << result_.status();
  ASSERT_NE(*result_, nullptr);
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(client_->peer_host(), "h2");
  EXPECT_EQ(peers_[0].host, "h1");
  EXPECT_EQ(peers_[0].preamble, kMemberLink);
  EXPECT_EQ(counters_.accepted.value(), 1u);
}

TEST_F(TlsPeersTest, CarriesMoreThanTheStreamTakesAtOnceBothWays) {
  Serve(h2_.get());
  Connect(h1_.get());
  ASSERT_TRUE(result_.ok()) << result_.status();
  ASSERT_EQ(peers_.size(), 1u);
  const std::string bytes = ManyBytes(300'000);
  EXPECT_EQ(Transfer(**result_, *peers_[0].connection, bytes, 777), bytes);
  EXPECT_EQ(Transfer(*peers_[0].connection, **result_, bytes, 100'000), bytes);
}

class CountingWaker final : public Waker {
 public:
  void Wake() override { ++wakes; }
  int wakes = 0;
};

// The owner of a connection may change while received bytes are decrypted but not read.
TEST_F(TlsPeersTest, ANewOwnerIsWokenForBytesThatOpensslHas) {
  Serve(h2_.get());
  Connect(h1_.get());
  ASSERT_EQ(peers_.size(), 1u);
  const std::string text = "two parts";
  const iovec all{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  ASSERT_EQ(*(*result_)->Write({&all, 1}), text.size());
  Run(kNsPerMs);
  Connection& server = *peers_[0].connection;
  char part[3];
  const iovec piece{.iov_base = part, .iov_len = sizeof(part)};
  ASSERT_EQ(*server.Read({&piece, 1}), 3u);
  EXPECT_TRUE(server.readable());
  CountingWaker waker;
  server.SetWaker(&waker);
  EXPECT_GT(waker.wakes, 0);
  server.SetWaker(nullptr);
}

// A peer that ends sends its last message and closes: a write of this end may fail first.
TEST_F(TlsPeersTest, ReadsWhatThePeerSentBeforeAFailedWrite) {
  Serve(h2_.get());
  Connect(h1_.get());
  ASSERT_EQ(peers_.size(), 1u);
  const std::unique_ptr<Connection> client = *std::move(result_);
  client_.reset();
  const std::string text = "goodbye";
  const iovec all{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  ASSERT_EQ(*peers_[0].connection->Write({&all, 1}), text.size());
  peers_.clear();
  Run(kNsPerMs);
  EXPECT_TRUE(absl::IsUnavailable(client->Write({&all, 1}).status()));
  ASSERT_TRUE(client->readable());
  char received[16];
  const iovec piece{.iov_base = received, .iov_len = sizeof(received)};
  const absl::StatusOr<size_t> got = client->Read({&piece, 1});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(std::string(received, *got), text);
  EXPECT_TRUE(absl::IsUnavailable(client->Read({&piece, 1}).status()));
}

// They come from many addresses, each with fewer connections than the host.
TEST_F(TlsPeersTest, StrangersDisplaceNoProvenHost) {
  secret_.reset();
  Serve(h2_.get(), {.timeouts = {}, .pending = 8, .proven = 3});
  std::vector<std::unique_ptr<ClientHandshake>> clients;
  const auto connect = [&] {
    Connect(h1_.get());
    clients.push_back(std::move(client_));
  };
  for (int i = 0; i < 3; ++i) connect();
  std::vector<std::unique_ptr<Connection>> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(Dial("10.0.0." + std::to_string(i + 1)));
  Run(10 * kNsPerMs);
  EXPECT_EQ(server_->pending(), 3u + 8u);
  EXPECT_EQ(counters_.displaced.value(), 12u);
  EXPECT_FALSE(log_.Contains("most of them from h1"));
  connect();
  EXPECT_EQ(counters_.displaced.value(), 12u + 2u) << "a stranger, and then one of the host's";
  EXPECT_TRUE(
      log_.Contains("more than 3 connections of the cluster's hosts wait for their "
                    "handshake, most of them from h1"));
  secret_ = kSecret;
  server_->RetryLookup(CommId(42));
  for (size_t i = 1; i < clients.size(); ++i) {
    client_ = std::move(clients[i]);
    Run(10 * kNsPerMs);
    EXPECT_TRUE(result_.ok() && *result_ != nullptr) << i << ": " << result_.status();
  }
  EXPECT_EQ(peers_.size(), 3u);
}

TEST_F(TlsPeersTest, LanesStayPlain) {
  Serve(h2_.get());
  Connect(h1_.get(), kLaneLink);
  ASSERT_TRUE(result_.ok()) << result_.status();
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(peers_[0].host, "");
}

TEST_F(TlsPeersTest, LanesAreSecureIfTheConfigurationSaysSo) {
  const std::unique_ptr<TlsPeers> h3 = PeersOf(cluster_.Host("h3"), /*secures_lanes=*/true);
  const std::unique_ptr<TlsPeers> h4 = PeersOf(cluster_.Host("h4"), /*secures_lanes=*/true);
  Serve(h4.get());
  Connect(h3.get(), kLaneLink);
  ASSERT_TRUE(result_.ok()) << result_.status();
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(peers_[0].host, "h3");
  EXPECT_EQ(client_->peer_host(), "h4");
  const std::string bytes = ManyBytes(200'000);
  EXPECT_EQ(Transfer(**result_, *peers_[0].connection, bytes, 70'000), bytes);
}

TEST_F(TlsPeersTest, AHostThatSecuresItsLanesAcceptsNoOthers) {
  const std::unique_ptr<TlsPeers> h3 = PeersOf(cluster_.Host("h3"), /*secures_lanes=*/true);
  Serve(h3.get());
  Connect(h1_.get(), kLaneLink);
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()), HasSubstr("`lanes: {encryption: on}`"));
  EXPECT_TRUE(peers_.empty());
  EXPECT_THAT(LogText(), Mentions("without encryption", "`lanes: {encryption: on}`"));
}

TEST_F(TlsPeersTest, AHostThatSecuresItsLanesOpensNoOthers) {
  const std::unique_ptr<TlsPeers> h3 = PeersOf(cluster_.Host("h3"), /*secures_lanes=*/true);
  Serve(h1_.get());
  Connect(h3.get(), kLaneLink);
  ASSERT_TRUE(result_.ok()) << result_.status();
  ASSERT_EQ(peers_.size(), 1u);
  EXPECT_EQ(peers_[0].host, "h3");
}

// A connection on whose bytes an observer looks.
class TappedConnection final : public Connection {
 public:
  TappedConnection(std::unique_ptr<Connection> inner, std::string* seen)
      : inner_(std::move(inner)), seen_(*seen) {}
  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    const absl::StatusOr<size_t> written = inner_->Write(pieces);
    size_t left = written.value_or(0);
    for (const iovec& piece : pieces) {
      const size_t count = std::min(left, piece.iov_len);
      seen_.append(static_cast<const char*>(piece.iov_base), count);
      left -= count;
    }
    return written;
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    return inner_->Read(pieces);
  }
  bool readable() const override { return inner_->readable(); }
  bool writable() const override { return inner_->writable(); }
  void SetWaker(Waker* waker) override { inner_->SetWaker(waker); }
  Endpoint local() const override { return inner_->local(); }
  Endpoint remote() const override { return inner_->remote(); }

 private:
  const std::unique_ptr<Connection> inner_;
  std::string& seen_;
};

class TlsStream : public TlsPeersTest {
 protected:
  // A new key after each few records, so that tests see several.
  TlsStream() {
    const std::unique_ptr<Listener> listener =
        *network_.HostNetwork("server").Listen({.host = "", .port = 7500});
    auto dialed = *network_.HostNetwork("client").Connect({.host = "server", .port = 7500}, {});
    std::unique_ptr<Connection> accepted;
    while (accepted == nullptr) {
      network_.AdvanceTo(clock_.Now() + kNsPerMs);
      accepted = *listener->Accept();
    }
    const auto secure = [&](const TlsFiles& files, std::unique_ptr<Connection> below,
                            PeerSecurity::End end) {
      return std::make_unique<TlsConnection>(std::move(below), ContextOf(files, cluster_.now_s()),
                                             end, nullptr, kRecordsPerKey);
    };
    client_end_ =
        secure(cluster_.Host("h1"), std::make_unique<TappedConnection>(std::move(dialed), &seen_),
               PeerSecurity::End::kClient);
    server_end_ = secure(cluster_.Host("h2"), std::move(accepted), PeerSecurity::End::kServer);
  }

  static constexpr uint64_t kRecordsPerKey = 3;
  std::string seen_;
  std::unique_ptr<TlsConnection> client_end_;
  std::unique_ptr<TlsConnection> server_end_;
};

TEST_F(TlsStream, AnObserverDoesNotSeeThePayload) {
  const std::string bytes(300'000, 'A');
  EXPECT_EQ(Transfer(*client_end_, *server_end_, bytes, 50'000), bytes);
  EXPECT_GT(seen_.size(), bytes.size());
  EXPECT_EQ(seen_.find("AAAAAAAA"), std::string::npos);
}

TEST_F(TlsStream, NewKeysDoNotInterruptIt) {
  const std::string bytes = ManyBytes(400'000);
  EXPECT_EQ(Transfer(*client_end_, *server_end_, bytes, 10'000), bytes);
  EXPECT_EQ(Transfer(*server_end_, *client_end_, bytes, 10'000), bytes);
}

// A lane whose rate is limited offers less than it did when the stream was full.
TEST_F(TlsStream, AWriteMayOfferFewerBytesThanTheOneBefore) {
  const std::string bytes = ManyBytes(500'000);
  std::string received;
  std::string buffer(5'000, '\0');
  size_t sent = 0;
  for (int turn = 0; turn < 100'000 && received.size() < bytes.size(); ++turn) {
    const size_t offer =
        std::min<size_t>(turn % 2 == 0 ? 100'000 : 1 + turn % 977, bytes.size() - sent);
    const iovec piece{.iov_base = const_cast<char*>(bytes.data()) + sent, .iov_len = offer};
    if (offer > 0) {
      const absl::StatusOr<size_t> written = client_end_->Write({&piece, 1});
      ASSERT_TRUE(written.ok()) << written.status();
      ASSERT_LE(*written, offer);
      sent += *written;
    }
    const iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
    const absl::StatusOr<size_t> got = server_end_->Read({&part, 1});
    ASSERT_TRUE(got.ok()) << got.status();
    received.append(buffer, 0, *got);
    if (network_.NextEventTime()) network_.AdvanceTo(*network_.NextEventTime());
  }
  EXPECT_EQ(received, bytes);
}

// A tenant knows the secret, but no key of a certificate.
TEST_F(TlsPeersTest, TheSecretAloneOpensNoControlLink) {
  Serve(h2_.get());
  Connect(nullptr);
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()), Mentions("certificate", "`tls`"));
  EXPECT_TRUE(peers_.empty());
  EXPECT_THAT(LogText(), HasSubstr("without a certificate"));
  EXPECT_EQ(counters_.accepted.value(), 0u);
  EXPECT_EQ(counters_.not_authenticated.value(), 1u);
}

TEST_F(TlsPeersTest, AHostWithoutCertificateSaysSoToOneThatHasOne) {
  Serve(nullptr);
  Connect(h1_.get());
  EXPECT_FALSE(result_.ok());
  EXPECT_THAT(std::string(result_.status().message()), HasSubstr("see mccsd's log on that host"));
  EXPECT_TRUE(peers_.empty());
  EXPECT_THAT(LogText(), Mentions("this host has none", "`tls`"));
}

TEST_F(TlsPeersTest, BothEndsNameAForeignCertificate) {
  NewCertificates foreign("example.org");
  const std::unique_ptr<TlsPeers> stranger = PeersOf(foreign.Host("h1"));
  Serve(h2_.get());
  Connect(stranger.get());
  // The client rejects first: it sees the server's certificate before it shows its own.
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()),
              Mentions("CN=host h2, O=mccs", "issue-certificate"));
  EXPECT_THAT(LogText(), Mentions("CN=host h2, O=mccs", "alert"));
  EXPECT_TRUE(peers_.empty());
}

// A program that is not mccsd, with any context.
class StrangersSecurity final : public PeerSecurity {
 public:
  explicit StrangersSecurity(TlsContext context) : context_(std::move(context)) {}
  std::unique_ptr<SecureConnection> Secure(std::unique_ptr<Connection> connection,
                                           End end) override {
    return std::make_unique<TlsConnection>(std::move(connection), context_, end);
  }

 private:
  const TlsContext context_;
};

// The stranger accepts the server, so that it shows its certificate of another authority.
TEST_F(TlsPeersTest, TheServerNamesAForeignCertificate) {
  NewCertificates foreign("example.org");
  TlsFiles files = foreign.Host("h1");
  std::string both = foreign.authority().Pem()->certificate;
  both += cluster_.authority().Pem()->certificate;
  files.authority = foreign.Write("both", both);
  TlsContext context = ContextOf(files, cluster_.now_s());
  context.own.identity.domain = kDefaultTrustDomain;
  StrangersSecurity stranger(std::move(context));
  Serve(h2_.get());
  Connect(&stranger);
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()),
              Mentions("rejected this host's certificate, that of 'CN=host h1, O=example.org'",
                       "unknown ca", "issue-certificate"));
  EXPECT_THAT(LogText(),
              Mentions("rejected the certificate of 'CN=host h1, O=example.org'",
                       "issued by 'CN=MCCS certificate authority, O=example.org'",
                       "this host's is issued by 'CN=MCCS certificate authority, O=mccs'",
                       "issue-certificate"));
  EXPECT_EQ(counters_.not_authenticated.value(), 1u);
  EXPECT_TRUE(peers_.empty());
}

// It speaks TLS and trusts the cluster's authority, but has no certificate to show.
TEST_F(TlsPeersTest, TheServerRejectsAClientWithoutCertificateInTls) {
  const TlsContext context = ContextOf(cluster_.Host("h3"), cluster_.now_s());
  const auto show_none = [](SSL* ssl, void*) {
    SSL_certs_clear(ssl);
    return 1;
  };
  SSL_CTX_set_cert_cb(context.ssl.get(), show_none, nullptr);
  StrangersSecurity stranger(context);
  Serve(h2_.get());
  Connect(&stranger);
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()),
              Mentions("certificate required", "issue-certificate"));
  EXPECT_THAT(LogText(), Mentions("the peer has no certificate", "issue-certificate"));
  EXPECT_EQ(counters_.not_authenticated.value(), 1u);
  EXPECT_TRUE(peers_.empty());
}

TEST_F(TlsPeersTest, BothEndsNameTheExpiredCertificateOfAClient) {
  const std::unique_ptr<TlsPeers> expired = ExpiredPeersOf("h3");
  Serve(h2_.get());
  Connect(expired.get());
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()),
              Mentions("rejected this host's certificate, that of 'CN=host h3, O=mccs'",
                       "certificate expired", "issue-certificate"));
  EXPECT_THAT(LogText(), Mentions("rejected the certificate of 'CN=host h3, O=mccs'",
                                  "certificate has expired", "issue-certificate"));
  EXPECT_TRUE(peers_.empty());
}

TEST_F(TlsPeersTest, BothEndsNameTheExpiredCertificateOfAServer) {
  const std::unique_ptr<TlsPeers> expired = ExpiredPeersOf("h3");
  Serve(expired.get());
  Connect(h1_.get());
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()),
              Mentions("rejected the certificate of 'CN=host h3, O=mccs'",
                       "certificate has expired", "issue-certificate"));
  EXPECT_THAT(LogText(), Mentions("rejected this host's certificate, that of 'CN=host h3, O=mccs'",
                                  "certificate expired", "issue-certificate"));
  EXPECT_TRUE(peers_.empty());
}

TEST_F(TlsPeersTest, AnOperatorIsNoPeer) {
  const std::unique_ptr<TlsPeers> alice =
      PeersOf(cluster_.Issue({"mccs", Identity::Kind::kOperator, "alice"}));
  Serve(h2_.get());
  Connect(alice.get());
  EXPECT_EQ(result_.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(result_.status().message()), Mentions("CN=operator alice", "rejected"));
  EXPECT_TRUE(peers_.empty());
  EXPECT_THAT(LogText(), Mentions("CN=operator alice", "not of a host"));
}

TEST_F(TlsPeersTest, RenewedFilesAreUsedAndBadOnesAreNot) {
  const TlsFiles files = cluster_.Host("h3");
  const std::unique_ptr<TlsPeers> peers = PeersOf(files);
  const int64_t ends = cluster_.now_s() + 5 * NewCertificates::kDay;
  cluster_.Issue({"mccs", Identity::Kind::kHost, "h3"}, Validity{cluster_.now_s() - 10, ends});
  peers->Refresh();
  EXPECT_EQ(peers->own().validity.to_s, ends);
  EXPECT_THAT(LogText(), Mentions("new connections use", "CN=host h3"));
  cluster_.Write("of host h3.crt", "rubbish");
  peers->Refresh();
  peers->Refresh();
  EXPECT_EQ(peers->own().validity.to_s, ends);
  EXPECT_THAT(LogText(), Mentions("cannot be used", "of host h3.crt"));
  EXPECT_EQ(log_.Count("cannot be used"), 1u);
}

// Ends of sleeps of the engine. The thread that computes is held at one until `Release`.
class HeldWakes {
 public:
  ~HeldWakes() { Release(); }

  void Wake() {
    std::unique_lock lock(mutex_);
    ++wakes_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return released_; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  // Waits for the next one after those that it has returned for.
  void Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return wakes_ > awaited_; });
    awaited_ = wakes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int wakes_ = 0;
  int awaited_ = 0;
  bool released_ = false;
};

// The server's handshakes are computed by a thread.
class HandshakeThreadTest : public TlsPeersTest {
 protected:
  HandshakeThreadTest() { Serve(threaded_.get()); }
  ~HandshakeThreadTest() override {
    wakes_.Release();
    server_.reset();
    clients_.clear();
    peers_.clear();
  }

  // Opens connections of `host`, whose first messages have arrived at the server.
  void Begin(const std::string& host, int count, PeerSecurity* security = nullptr) {
    if (security == nullptr) security = h1_.get();
    for (int i = 0; i < count; ++i) {
      clients_.push_back(
          {host,
           std::make_unique<ClientHandshake>(
               *network_.HostNetwork(host).Connect({.host = "server", .port = 7400}, {}),
               kMemberLink, kSecret, client_random_, clock_.Now() + 60 * kNsPerSec, security)});
    }
    for (int i = 0; i < 10; ++i) Turn(/*of_server=*/false);
  }

  void Turn(bool of_server) {
    network_.AdvanceTo(clock_.Now() + kNsPerMs);
    for (auto& [host, client] : clients_) {
      if (client == nullptr) continue;
      const auto connection = client->Poll(clock_.Now());
      ASSERT_TRUE(connection.ok()) << connection.status();
      if (*connection == nullptr) continue;
      client.reset();
      completed_.push_back(host);
    }
    if (!of_server) return;
    threaded_->Poll();
    for (Peer& peer : server_->Poll(clock_.Now())) peers_.push_back(std::move(peer));
  }

  // Turns until so many are proven, each after the thread has computed something.
  void RunUntil(size_t peers) {
    for (int turn = 0; turn < 10 && peers_.size() < peers; ++turn) Turn(/*of_server=*/true);
    while (peers_.size() < peers) {
      wakes_.Await();
      for (int turn = 0; turn < 10; ++turn) Turn(/*of_server=*/true);
    }
  }

  HeldWakes wakes_;
  const std::unique_ptr<TlsPeers> threaded_ =
      *TlsPeers::Make(cluster_.Host("h4"), wall_clock_, log_,
                      {.wake = [this] { wakes_.Wake(); }, .refresh_ns = kNever / 4});
  std::vector<std::pair<std::string, std::unique_ptr<ClientHandshake>>> clients_;
  std::vector<std::string> completed_;  // hosts, in order
};

// The thread is blocked after one part, and the turns of the engine continue without the others.
TEST_F(HandshakeThreadTest, TheEngineComputesNoHandshake) {
  Begin("client", 12);
  for (int turn = 0; turn < 50; ++turn) Turn(/*of_server=*/true);
  EXPECT_TRUE(completed_.empty());
  EXPECT_TRUE(peers_.empty());
  EXPECT_EQ(server_->pending(), 12u);
  wakes_.Release();
  RunUntil(12);
  EXPECT_EQ(peers_.size(), 12u);
  for (const Peer& peer : peers_) EXPECT_EQ(peer.host, "h1");
}

// A tenant may begin many communicators at once, and this host is the client of each.
TEST_F(HandshakeThreadTest, TheEngineComputesNoHandshakeThatItBegins) {
  server_.reset();
  Serve(h2_.get());
  Begin("client", 12, threaded_.get());
  for (int turn = 0; turn < 50; ++turn) Turn(/*of_server=*/true);
  EXPECT_TRUE(completed_.empty());
  EXPECT_TRUE(peers_.empty());
  wakes_.Release();
  RunUntil(12);
  for (const Peer& peer : peers_) EXPECT_EQ(peer.host, "h4");
}

TEST_F(HandshakeThreadTest, ConnectionsThatEndMeanwhileAreForgotten) {
  Begin("client", 12);
  Turn(/*of_server=*/true);
  clients_.clear();
  server_.reset();
  wakes_.Release();
  wakes_.Await();
  threaded_->Poll();
  Serve(threaded_.get());
  Begin("client", 1);
  RunUntil(1);
  EXPECT_EQ(peers_.size(), 1u);
}

// Users that record whose parts are computed.
class RecordingUser final : public HandshakeThread::User {
 public:
  RecordingUser(std::string name, std::vector<std::string>* computed)
      : name_(std::move(name)), computed_(*computed) {}
  void OnComputed(std::unique_ptr<TlsSession> session, const absl::Status& result) override {
    EXPECT_NE(session, nullptr);
    EXPECT_TRUE(result.ok()) << result;
    computed_.push_back(name_);
  }

 private:
  const std::string name_;
  std::vector<std::string>& computed_;
};

class HandshakeQueueTest : public testing::Test {
 protected:
  HandshakeThread::Ticket Add(RecordingUser& user, const std::string& address) {
    return thread_.Add(user, address,
                       std::make_unique<TlsSession>(context_, PeerSecurity::End::kClient,
                                                    TlsConnection::kRecordsPerKey));
  }
  void RunUntil(size_t computed) {
    while (computed_.size() < computed) {
      if (!thread_.Poll()) wakes_.Await();
    }
  }

  NewCertificates cluster_;
  const TlsContext context_ = ContextOf(cluster_.Host("h1"), cluster_.now_s());
  std::vector<std::string> computed_;
  RecordingUser many_{"many", &computed_};
  RecordingUser one_{"one", &computed_};
  HeldWakes wakes_;
  HandshakeThread thread_{[this] { wakes_.Wake(); }};
};

TEST_F(HandshakeQueueTest, AFloodDelaysAnotherAddressByTheRing) {
  for (int i = 0; i < 200; ++i) Add(many_, "10.0.0.1");
  Add(one_, "10.0.0.2");
  wakes_.Release();
  RunUntil(201);
  const auto place = std::ranges::find(computed_, "one") - computed_.begin();
  EXPECT_LE(place, static_cast<int>(HandshakeThread::kRing) + 1);
}

TEST_F(HandshakeQueueTest, CancelledPartsAreNotDelivered) {
  std::vector<HandshakeThread::Ticket> tickets;
  for (int i = 0; i < 20; ++i) tickets.push_back(Add(many_, "10.0.0.1"));
  EXPECT_EQ(thread_.waiting(), 20 - HandshakeThread::kRing);
  for (const HandshakeThread::Ticket& ticket : tickets) thread_.Cancel(ticket);
  EXPECT_EQ(thread_.waiting(), 0u);
  Add(one_, "10.0.0.1");
  wakes_.Release();
  RunUntil(1);
  EXPECT_EQ(computed_, std::vector<std::string>{"one"});
}

TEST_F(HandshakeQueueTest, EndsWhilePartsWait) {
  for (int i = 0; i < 20; ++i) Add(many_, "10.0.0.1");
  EXPECT_EQ(thread_.waiting(), 20 - HandshakeThread::kRing);
  wakes_.Release();
}

}  // namespace tls_peers_test
}  // namespace mccs
