// The member's side of a rendezvous. The test plays the rendezvous on a simulated network. Time
// advances from event to event and from deadline to deadline, as in the engine.
#include "service/communicator/membership/joining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace joining_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kHere[] = "10.0.0.1";
constexpr char kThere[] = "10.0.0.2";
constexpr char kFar[] = "10.0.0.3";
constexpr uint16_t kPort = 7000;
constexpr CommId kId{0x2a};
constexpr uint32_t kMostRosterBytes = 4096;

peer::Join JoinOf(int rank) {
  peer::Join join;
  join.mutable_rank()->set_rank(rank);
  return join;
}

peer::Message Waiting(const std::vector<int>& missing, uint32_t more = 0) {
  peer::Message message;
  for (int rank : missing) message.mutable_waiting()->add_missing_ranks(rank);
  message.mutable_waiting()->set_more(more);
  return message;
}

peer::Message Roster() {
  peer::Roster roster;
  roster.set_comm_id(kId.value());
  peer::Message message;
  message.set_roster(roster.SerializeAsString());
  return message;
}

peer::Message Rejected(const absl::Status& why) {
  peer::Message message;
  message.mutable_rejected()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_rejected()->set_message(std::string(why.message()));
  return message;
}

// Requests another turn of the member now.
struct TurnRequest final : Waker {
  void Wake() override { requested = true; }
  bool requested = false;
};

class JoiningTest : public testing::Test {
 protected:
  void Open(const PeerListenerLimits& limits = {}) {
    door_ = std::make_unique<PeerListener>(
        std::move(*network_.HostNetwork(kThere).Listen({kThere, kPort})),
        [this](const Preamble& preamble) -> std::optional<Secret> {
          if (preamble.purpose != ConnectionPurpose::kJoin || preamble.comm_id != kId)
            return std::nullopt;
          return secret_there_;
        },
        random_, *quiet_, limits);
  }

  void Start(bool keep_dialing = false, CommId id = kId) {
    joining_ = std::make_unique<Joining>(
        JoiningOptions{.access = {&network_.HostNetwork(kHere), &random_, &clock_},
                       .dial = {.route = {.to = {kThere, kPort}, .connect = {}},
                                .preamble = {.purpose = ConnectionPurpose::kJoin, .comm_id = id},
                                .secret = Secret{},
                                .waker = &turn_},
                       .keep_dialing = keep_dialing,
                       .relay = &relay_,
                       .most_roster_bytes = kMostRosterBytes,
                       .log = &log_});
    started_ = clock_.Now();
  }

  // Runs turns of both ends until `done` or until the member has a result; false on a timeout.
  bool Run(const std::function<bool()>& done, int64_t limit_ns = 2 * kNsPerSec) {
    const MonotonicNs limit = clock_.Now() + limit_ns;
    for (;;) {
      Serve();
      turn_.requested = false;
      if (!withdrawn_ && status_.ok() && !roster_.has_value()) {
        auto answer = joining_->Poll();
        if (!answer.ok()) {
          status_ = answer.status();
        } else if (answer->has_value()) {
          roster_ = std::move(**answer);
        }
      }
      Serve();
      if (done()) return true;
      MonotonicNs next = network_.NextEventTime().value_or(limit);
      if (turn_.requested) next = clock_.Now();
      if (status_.ok() && !roster_.has_value()) next = std::min(next, joining_->NextDeadline());
      if (door_ != nullptr) next = std::min(next, door_->NextDeadline().value_or(limit));
      next = std::min({next, relay_.NextDeadline(), forwarder_.NextDeadline(),
                       relay_door_.NextDeadline().value_or(limit)});
      if (std::max(next, clock_.Now() + 1) > limit) {
        network_.AdvanceTo(limit);
        return false;
      }
      network_.AdvanceTo(std::max(next, clock_.Now() + 1));
    }
  }
  bool RunToError(int64_t limit_ns = 2 * kNsPerSec) {
    return Run([&] { return !status_.ok(); }, limit_ns);
  }
  // The member and its ranks have joined.
  bool RunToJoined(size_t ranks) {
    return Run([&] { return joined_.size() == ranks; });
  }

  // The relay of this host, and one of another host that forwards to it.
  void ServeRelays() {
    for (Peer& peer : relay_door_.Poll(clock_.Now()))
      relay_.Accept(peer.preamble.comm_id, peer.secret, std::move(peer.connection));
    while (relay_.Poll() | forwarder_.Poll()) {
    }
  }
  // `secret`: of the forwarder.
  static TreeRelay::Subject SubjectWith(const Secret& secret) {
    return {.kind = Relayed::kRoster,
            .relay_id = RelayIdOf(Relayed::kRoster, kId, Secret{}),
            .secret = secret};
  }
  void Forward(const std::string& roster) {
    forwarder_.Forward("blue", SubjectWith(Secret{}), roster, {{kHere, kPort}});
  }
  static peer::Message NoticeOf(const peer::Message& roster) {
    peer::Message message;
    message.mutable_roster_notice()->set_hash(RelayHash(Secret{}, roster.roster()));
    return message;
  }

  void Serve() {
    ServeRelays();
    if (door_ != nullptr) {
      for (Peer& peer : door_->Poll(clock_.Now()))
        link_ = std::make_unique<PeerLink>(std::move(peer.connection));
    }
    if (link_ == nullptr) return;
    link_->Poll();
    for (;;) {
      const auto message = link_->Receive();
      if (!message.ok() || !message->has_value()) return;
      if ((*message)->has_join()) joined_.push_back((*message)->join().rank().rank());
      if ((*message)->has_failed()) farewell_ = (*message)->failed();
      if ((*message)->has_roster_request()) ++requests_;
    }
  }

  void Withdraw(const absl::Status& why) {
    joining_->Withdraw(why);
    withdrawn_ = true;
  }
  int64_t elapsed() const { return clock_.Now() - started_; }
  std::string error() const { return std::string(status_.message()); }
  bool Logged(std::string_view text) const { return log_.Contains(text); }

  TurnRequest turn_;  // outlives the connections
  SimClock clock_;
  SimNetwork network_{clock_, 1};
  SeededRandom random_{1};
  RecordingLog log_;
  std::unique_ptr<Log> quiet_ = MakeNullLog();
  Secret secret_there_{};
  std::unique_ptr<PeerListener> door_;
  std::unique_ptr<PeerLink> link_;
  std::vector<int> joined_;
  int requests_ = 0;  // of the roster
  std::optional<peer::Failed> farewell_;
  const PeerAccess access_{&network_.HostNetwork(kHere), &random_, &clock_};
  TreeRelay relay_{access_, log_};
  PeerListener relay_door_{
      std::move(*network_.HostNetwork(kHere).Listen({kHere, kPort})),
      [this](const Preamble& preamble) { return relay_.SecretOf(preamble.comm_id); }, random_,
      *quiet_};
  const PeerAccess far_access_{&network_.HostNetwork(kFar), &random_, &clock_};
  TreeRelay forwarder_{far_access_, log_};
  std::unique_ptr<Joining> joining_;
  MonotonicNs started_ = 0;
  absl::Status status_;
  std::optional<std::string> roster_;  // serialised
  bool withdrawn_ = false;
};

// Rank 0 has joined.
class JoinedTest : public JoiningTest {
 protected:
  void SetUp() override {
    Open();
    Start();
    joining_->Add(JoinOf(0));
    ASSERT_TRUE(RunToJoined(1));
  }
};

// ---- Success ------------------------------------------------------------------------------------

TEST_F(JoiningTest, SendsRanksAndReceivesRoster) {
  Open();
  Start();
  joining_->Add(JoinOf(3));
  joining_->Add(JoinOf(1));
  ASSERT_TRUE(RunToJoined(2));
  EXPECT_THAT(joined_, ElementsAre(3, 1));
  joining_->Add(JoinOf(7));  // a rank that joins later
  ASSERT_TRUE(RunToJoined(3));
  EXPECT_FALSE(roster_.has_value());
  link_->Send(Roster());
  ASSERT_TRUE(Run([&] { return roster_.has_value(); }));
  EXPECT_EQ(*roster_, Roster().roster());
}

TEST_F(JoiningTest, JoinsAtItsOwnDaemonWithoutTheNetwork) {
  Rendezvous own(random_, clock_, *quiet_);
  const wire::UniqueId id = own.MakeId({kHere, kPort}, "blue").value();
  // Nobody listens at the address of the id.
  Joining joining(
      {.access = {&network_.HostNetwork(kHere), &random_, &clock_},
       .dial = {.route = {.to = {kHere, kPort}, .connect = {}},
                .preamble = {.purpose = ConnectionPurpose::kJoin, .comm_id = CommId(id.comm_id)},
                .secret = SecretOf(id),
                .waker = &turn_},
       .own = &own,
       .endpoint = {kHere, kPort},
       .relay = &relay_,
       .most_roster_bytes = 64u << 10,
       .log = &log_});
  peer::Join join = JoinOf(0);
  join.set_ranks(1);
  joining.Add(join);
  ASSERT_TRUE(joining.Poll().ok());
  turn_.requested = false;
  while (own.Poll()) {
  }
  EXPECT_TRUE(turn_.requested) << "the roster has arrived";
  const auto roster = joining.Poll();
  ASSERT_TRUE(roster.ok()) << roster.status();
  EXPECT_TRUE(roster->has_value());
}

TEST_F(JoinedTest, RefusesRosterThatIsTooLongForTheCommunicator) {
  peer::Message message;
  message.set_roster(std::string(kMostRosterBytes, 'x'));
  link_->Send(message);
  ASSERT_TRUE(RunToError());
  EXPECT_THAT(error(), HasSubstr(absl::StrCat("at most ", kMostRosterBytes)));
}

// ---- A forwarded roster -------------------------------------------------------------------------

TEST_F(JoinedTest, TakesTheForwardedRoster) {
  for (const bool first : {true, false}) {
    SCOPED_TRACE(first ? "the notice first" : "the roster first");
    if (!first) {
      joining_.reset();
      link_.reset();
      door_.reset();
      joined_.clear();
      SetUp();
    }
    if (first) link_->Send(NoticeOf(Roster()));
    if (first) Run([] { return false; }, kNsPerMs);
    Forward(Roster().roster());
    if (!first) Run([] { return false; }, kNsPerMs);
    if (!first) link_->Send(NoticeOf(Roster()));
    ASSERT_TRUE(Run([&] { return roster_.has_value(); }, 10 * kNsPerMs)) << error();
    EXPECT_EQ(std::exchange(roster_, std::nullopt), Roster().roster());
    EXPECT_EQ(requests_, 0);
  }
}

TEST_F(JoinedTest, RequestsTheRosterIfAnotherOneIsForwarded) {
  link_->Send(NoticeOf(Roster()));
  Forward("forged");
  ASSERT_TRUE(Run([&] { return requests_ == 1; }, 10 * kNsPerMs));
  EXPECT_TRUE(Logged("a host forwarded another roster"));
  Forward("forged again");
  EXPECT_FALSE(Run([&] { return roster_.has_value(); }, 10 * kNsPerMs));
  link_->Send(Roster());
  ASSERT_TRUE(Run([&] { return roster_.has_value(); }, 10 * kNsPerMs)) << error();
  EXPECT_EQ(*roster_, Roster().roster());
  EXPECT_EQ(requests_, 1);
}

TEST_F(JoinedTest, RequestsTheRosterIfNoneIsForwarded) {
  link_->Send(NoticeOf(Roster()));
  ASSERT_FALSE(Run([&] { return requests_ > 0; }, kRelayTimeoutNs));
  ASSERT_TRUE(Run([&] { return requests_ == 1; }, 10 * kNsPerMs));
  Forward(Roster().roster());  // late, but welcome
  ASSERT_TRUE(Run([&] { return roster_.has_value(); }, 10 * kNsPerMs)) << error();
}

TEST_F(JoinedTest, TimesOutWithoutTheRosterOfTheNotice) {
  link_->Send(NoticeOf(Roster()));
  ASSERT_TRUE(RunToError(kRelayTimeoutNs + kRosterRequestTimeoutNs + 10 * kNsPerMs));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status_)) << error();
}

TEST_F(JoinedTest, ForwardedRosterMayArriveAfterTheEndOfTheRendezvous) {
  link_->Send(NoticeOf(Roster()));
  Run([] { return false; }, kNsPerMs);
  network_.Cut(kHere, kThere);
  ASSERT_FALSE(Run([&] { return !status_.ok(); }, kNsPerMs)) << error();
  Forward(Roster().roster());
  ASSERT_TRUE(Run([&] { return roster_.has_value(); }, 10 * kNsPerMs)) << error();
}

TEST_F(JoinedTest, EndOfTheRendezvousWithoutForwardedRosterIsAnError) {
  link_->Send(NoticeOf(Roster()));
  Run([] { return false; }, kNsPerMs);
  network_.Cut(kHere, kThere);
  ASSERT_TRUE(RunToError(kRelayTimeoutNs + 10 * kNsPerMs));
}

TEST_F(JoinedTest, WithdrawalThatCrossesTheNoticeRequestsTheRoster) {
  link_->Send(NoticeOf(Roster()));
  Withdraw(absl::CancelledError("aborted"));
  ASSERT_FALSE(joining_->WithdrawalDone());
  ASSERT_TRUE(Run([&] { return joining_->WithdrawalDone() || requests_ == 1; }));
  link_->Send(Roster());
  ASSERT_TRUE(Run([&] { return joining_->WithdrawalDone(); }));
  EXPECT_EQ(joining_->TakeLateRoster(), Roster().roster());
}

TEST_F(JoinedTest, WithdrawalAfterTheNoticeRequestsTheRoster) {
  link_->Send(NoticeOf(Roster()));
  Run([] { return false; }, kNsPerMs);
  Withdraw(absl::CancelledError("aborted"));
  ASSERT_TRUE(Run([&] { return joining_->WithdrawalDone() || requests_ == 1; }));
  Forward(Roster().roster());
  ASSERT_TRUE(Run([&] { return joining_->WithdrawalDone(); }));
  EXPECT_EQ(joining_->TakeLateRoster(), Roster().roster());
}

TEST_F(JoinedTest, IgnoresForwardersWithoutTheSecret) {
  link_->Send(NoticeOf(Roster()));
  forwarder_.Forward("blue", SubjectWith(Secret{1}), Roster().roster(), {{kHere, kPort}});
  EXPECT_FALSE(Run([&] { return roster_.has_value(); }, 10 * kNsPerMs));
}

// ---- Ranks --------------------------------------------------------------------------------------

TEST_F(JoinedTest, SendsEachRankOnce) {
  Run([] { return false; }, 10 * kNsPerSec);
  EXPECT_THAT(joined_, ElementsAre(0));
}

// ---- No daemon or the wrong one at the address --------------------------------------------------

TEST_F(JoiningTest, RequestsTurnsForMoreMessagesThanATurnTakes) {
  Open();
  Start();
  joining_->Add(JoinOf(0));
  ASSERT_TRUE(RunToJoined(1));
  for (int i = 0; i < 3 * kPeerMessagesPerTurn; ++i) link_->Send(Waiting({1}));
  link_->Send(Roster());
  EXPECT_TRUE(Run([&] { return roster_.has_value(); }));
}

TEST_F(JoiningTest, NamesAddressWithoutListener) {
  Start();
  ASSERT_TRUE(RunToError());
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
  EXPECT_THAT(error(), Mentions("communicator 000000000000002a", "10.0.0.2:7000"));
}

TEST_F(JoiningTest, RedialsGuessableIdUntilConnected) {
  Start(/*keep_dialing=*/true);
  joining_->Add(JoinOf(0));
  EXPECT_FALSE(RunToError(20 * kNsPerSec));
  Open();
  const MonotonicNs opened = clock_.Now();
  ASSERT_TRUE(RunToJoined(1));
  EXPECT_LE(clock_.Now() - opened, kMaxRedialIntervalNs + kNsPerMs);
}

TEST_F(JoiningTest, FailsOnWrongSecretDespiteRedialing) {
  secret_there_[0] = 1;
  Open();
  Start(/*keep_dialing=*/true);
  joining_->Add(JoinOf(0));
  ASSERT_TRUE(RunToError());
  EXPECT_TRUE(absl::IsPermissionDenied(status_)) << status_;
  EXPECT_THAT(error(), HasSubstr("10.0.0.2:7000"));
  EXPECT_TRUE(joined_.empty()) << "sent its ranks to an unauthenticated peer";
}

TEST_F(JoiningTest, UnknownRendezvousFailsOrIsRetried) {
  for (const bool keep_dialing : {false, true}) {
    door_.reset();
    Open({.timeouts = {.lookup_ns = kNsPerSec}});
    status_ = absl::OkStatus();
    Start(keep_dialing, CommId(99));
    EXPECT_EQ(RunToError(10 * kNsPerSec), !keep_dialing) << status_;
  }
}

TEST_F(JoiningTest, TimesOutOnSilentDaemon) {
  auto silent = std::move(*network_.HostNetwork(kThere).Listen({kThere, kPort}));
  Start();
  ASSERT_TRUE(RunToError(100 * kNsPerSec));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status_)) << status_;
  EXPECT_LE(elapsed(), 31 * kNsPerSec) << "woke up for something else";
}

// ---- Failures while waiting ---------------------------------------------------------------------

TEST_F(JoinedTest, ReturnsRejectionOfRendezvous) {
  link_->Send(Rejected(absl::InvalidArgumentError("two processes claim rank 0")));
  link_.reset();  // and closes the link
  ASSERT_TRUE(RunToError());
  EXPECT_EQ(status_, absl::InvalidArgumentError("two processes claim rank 0"));
}

TEST_F(JoinedTest, NamesLostRendezvous) {
  network_.CutHost(kThere);
  ASSERT_TRUE(RunToError());
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
  EXPECT_THAT(error(),
              HasSubstr("the rendezvous of communicator 000000000000002a at 10.0.0.2:7000 ended"));
}

TEST_F(JoiningTest, DoesNotRedialLostRendezvous) {
  Open();
  Start(/*keep_dialing=*/true);
  joining_->Add(JoinOf(0));
  ASSERT_TRUE(RunToJoined(1));
  network_.Cut(kHere, kThere);
  ASSERT_TRUE(RunToError());
  EXPECT_THAT(error(), HasSubstr("ended"));
}

// ---- Missing ranks ------------------------------------------------------------------------------

TEST_F(JoiningTest, DescribesMissingRanksAtEachStage) {
  Start();
  EXPECT_EQ(joining_->DescribeMissing(), "the rendezvous daemon has not answered");
  Open();
  joining_->Add(JoinOf(0));
  ASSERT_TRUE(RunToJoined(1));
  EXPECT_EQ(joining_->DescribeMissing(),
            "the rendezvous daemon has not reported the missing ranks");
  const struct {
    peer::Message waiting;
    std::string text;
  } cases[] = {{Waiting({3}), "rank 3 has not joined"},
               {Waiting({3, 5}), "ranks 3, 5 have not joined"},
               {Waiting({3}, 1), "rank 3 and 1 more have not joined"}};
  for (const auto& c : cases) {
    link_->Send(c.waiting);
    EXPECT_TRUE(Run([&] { return joining_->DescribeMissing() == c.text; }))
        << joining_->DescribeMissing();
  }
}

TEST_F(JoinedTest, TruncatesMissingRanks) {
  std::vector<int> missing(1000);
  for (int i = 0; i < 1000; ++i) missing[static_cast<size_t>(i)] = i + 1;
  link_->Send(Waiting(missing));
  ASSERT_TRUE(Run([&] { return joining_->DescribeMissing().find("ranks 1, 2") == 0; }));
  EXPECT_THAT(joining_->DescribeMissing(), HasSubstr("15, 16 and 984 more have not joined"));
}

TEST_F(JoinedTest, LogsMissingRanksPeriodically) {
  link_->Send(Waiting({3}));
  Run([] { return false; }, kFirstMissingLogNs - 10 * kNsPerMs);
  EXPECT_TRUE(log_.lines.empty());
  Run([] { return false; }, 20 * kNsPerMs);
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0], Mentions("communicator 000000000000002a", "rank 3"));
  Run([] { return false; }, 3 * kMissingLogEveryNs);
  EXPECT_EQ(log_.lines.size(), 4u);
}

// ---- This host withdraws ------------------------------------------------------------------------

TEST_F(JoinedTest, WithdrawalEndsWithAnswer) {
  Withdraw(absl::CancelledError("rank 0 was aborted"));
  EXPECT_FALSE(joining_->WithdrawalDone());
  ASSERT_TRUE(Run([&] { return farewell_.has_value(); }));
  EXPECT_EQ(farewell_->message(), "rank 0 was aborted");
  EXPECT_EQ(farewell_->error_code(), static_cast<uint32_t>(absl::StatusCode::kCancelled));
  EXPECT_FALSE(joining_->WithdrawalDone());
  link_->Send(Waiting({1}));  // sent before it read the withdrawal: not an answer
  link_->Send(Rejected(absl::CancelledError("so be it")));
  EXPECT_TRUE(Run([&] { return joining_->WithdrawalDone(); }, 10 * kNsPerMs));
}

TEST_F(JoinedTest, WithdrawalEndsWithCrossingRoster) {
  link_->Send(Roster());
  Withdraw(absl::CancelledError("aborted"));
  EXPECT_TRUE(Run([&] { return joining_->WithdrawalDone(); }, 10 * kNsPerMs));
}

TEST_F(JoinedTest, WithdrawalTimesOut) {
  const MonotonicNs before = clock_.Now();
  Withdraw(absl::CancelledError("aborted"));
  EXPECT_EQ(joining_->NextDeadline(), before + kWithdrawalTimeoutNs);
  ASSERT_TRUE(Run([&] { return joining_->WithdrawalDone(); }));
  EXPECT_EQ(clock_.Now(), before + kWithdrawalTimeoutNs);
}

TEST_F(JoiningTest, WithdrawalWithoutLinkEndsAtOnce) {
  Start();
  joining_->Add(JoinOf(0));
  Withdraw(absl::CancelledError("aborted"));
  EXPECT_TRUE(joining_->WithdrawalDone());
}

TEST_F(JoiningTest, WithdrawalAfterEndEndsAtOnce) {
  for (const bool rejected : {true, false}) {
    link_.reset();
    door_.reset();
    joined_.clear();
    status_ = absl::OkStatus();
    roster_.reset();
    withdrawn_ = false;
    Open();
    Start();
    joining_->Add(JoinOf(0));
    ASSERT_TRUE(RunToJoined(1));
    link_->Send(rejected ? Rejected(absl::InvalidArgumentError("no")) : Roster());
    ASSERT_TRUE(Run([&] { return roster_.has_value() || !status_.ok(); }));
    Withdraw(absl::InvalidArgumentError("no"));
    EXPECT_TRUE(joining_->WithdrawalDone());
  }
}

TEST_F(JoinedTest, WithdrawalEndsWithBrokenLink) {
  Withdraw(absl::CancelledError("aborted"));
  network_.Cut(kHere, kThere);
  EXPECT_TRUE(joining_->WithdrawalDone());
}

}  // namespace joining_test
}  // namespace mccs
