// Queue pairs on their own: the requests of their users, and limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/unit/device/process_memory.h"
#include "tests/unit/transport/rdma/fake_verbs.h"
#include "tests/unit/transport/rdma/rdma_host.h"

namespace mccs {
namespace peer_pair_test {

class CountingUser final : public PeerPair::User, public MemoryTable::Waiter {
 public:
  void OnSent(uint64_t cookie) override { sent = cookie; }
  void OnMessage(const wire::PairMessage&) override { ++messages; }
  void OnWritten(const wire::ImmediateFields&, uint32_t) override {}
  void OnProgress() override { ++progress; }
  void OnPairLost(const absl::Status&) override {}
  void OnRegistered() override {}

  uint64_t sent = 0;
  int messages = 0;
  int progress = 0;
};

// Two NICs with one queue pair between them. The test polls their completion queues.
class PeerPairTest : public testing::Test, private PeerPair::Owner {
 protected:
  static constexpr uint8_t kReceives = 16;

  struct End {
    FakeNic* nic = nullptr;
    std::shared_ptr<PairDomain> domain;
    std::shared_ptr<PeerPair> pair;
    CountingUser user;
    LaneNumber number;
  };

  void Connect(PeerPair::Options options) {
    for (End& end : ends_) {
      end.nic = &fabric_.AddNic("fake");
      end.domain = std::make_shared<PairDomain>(*end.nic, jobs_, "a");
      Owner& owner = *this;
      end.pair = std::make_shared<PeerPair>(end.domain, owner, clock_, options);
      end.number = *end.pair->Join(end.user);
      end.pair->OnMade(end.nic->MakeQueuePair(
          **end.domain->Open(), {.requests = options.requests, .receives = options.receives}));
    }
    for (int i = 0; i < 2; ++i) {
      PeerPair& pair = *ends_[i].pair;
      ASSERT_TRUE(pair.SetPeer(ends_[1 - i].pair->queue_pair().address(), options.receives).ok());
      pair.Connect();
    }
    Run();
    for (End& end : ends_) end.pair->SetUsable();
  }

  void Disconnect() {
    for (End& end : ends_) end.pair->Leave(end.number);
    Run();
    for (End& end : ends_) end = {};
  }
  void TearDown() override {
    if (ends_[0].pair != nullptr) Disconnect();
    EXPECT_EQ(waiting_, 0);
  }

  void Poll(End& end) {
    Completion completions[16];
    while (const size_t count = end.nic->Poll(completions)) {
      for (const Completion& each : std::span(completions).first(count)) {
        end.pair->OnCompletion(each);
      }
    }
    end.pair->Flush();
  }
  // Until nothing moves any more.
  void Run() {
    for (;;) {
      while (jobs_.Poll()) {
      }
      for (End& end : ends_) Poll(end);
      const auto next = fabric_.NextEventTime();
      if (!next.has_value()) return;
      clock_.Set(std::max(*next, clock_.Now()));
      fabric_.Step();
    }
  }
  void SendMessage(End& end) {
    wire::PairMessage message{};
    message.kind = wire::PairMessageKind::kTag;
    message.lane = static_cast<uint16_t>(ends_[0].number.value());  // equal at both ends
    end.pair->Send(end.number, message);
  }

  void OnBroken(PeerPair&) override {}
  void OnStopped(PeerPair&) override {}
  void OnWithdrawn(PeerPair&) override {}
  void OnQueued(PeerPair&) override {}
  void OnWaiting(bool waits) override { waiting_ += waits ? 1 : -1; }

  SimClock clock_;
  FakeFabric fabric_{clock_, /*seed=*/1};
  VerbsJobs jobs_;
  int waiting_ = 0;
  End ends_[2];
};

// The NIC uses the highest bit of an id. The fake refuses ids that have it.
TEST_F(PeerPairTest, IdsStayPositiveAfterEightMillionQueuePairs) {
  for (const uint32_t serial : {(uint32_t{1} << 23) - 1, uint32_t{1} << 23, ~uint32_t{0}}) {
    SCOPED_TRACE(serial);
    Connect({.key = {}, .serial = serial, .receives = kReceives});
    WorkRequest empty;
    for (uint64_t cookie = 1; cookie <= 100; ++cookie) {
      ASSERT_TRUE(ends_[0].pair->Claim(ends_[0].number, 1));
      ends_[0].pair->Write(ends_[0].number, empty, {.lane = 1}, cookie, nullptr);
      ends_[0].pair->Flush();
      Run();
      EXPECT_EQ(ends_[0].user.sent, cookie);
    }
    EXPECT_TRUE(ends_[0].pair->status().ok());
    Disconnect();
  }
}

TEST_F(PeerPairTest, AUserThatClaimsOftenIsWokenOnce) {
  Connect({.key = {}, .receives = kLeastReceives});
  End& end = ends_[0];
  while (end.pair->Claim(end.number, 1)) SendMessage(end);
  for (int i = 0; i < 1'000'000; ++i) ASSERT_FALSE(end.pair->Claim(end.number, 1));
  end.pair->Flush();
  end.user.progress = 0;
  Run();
  EXPECT_EQ(end.user.progress, 1);
  EXPECT_TRUE(end.pair->Claim(end.number, 1));
}

// Windows are made by a job, which may take long.
TEST_F(PeerPairTest, AUserThatBindsOftenIsWokenOnce) {
  Connect({.key = {}, .receives = kReceives});
  End& end = ends_[0];
  MemoryTable table(kTestLimits);
  const OwnedMemory region(std::vector<std::byte>(1'000));
  const auto memory = table.Use(region, end.domain, end.user);
  while (jobs_.Poll()) {
  }
  ASSERT_TRUE(memory->ready());
  for (int i = 0; i < 1'000; ++i) {
    const auto binding = end.pair->Bind(end.number, memory);
    ASSERT_TRUE(binding.ok());
    ASSERT_EQ(*binding, nullptr);
  }
  end.user.progress = 0;
  while (jobs_.Poll()) {
  }
  EXPECT_EQ(end.user.progress, 1);
  EXPECT_NE(*end.pair->Bind(end.number, memory), nullptr);
}

}  // namespace peer_pair_test
}  // namespace mccs
