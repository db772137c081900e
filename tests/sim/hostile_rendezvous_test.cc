// A tenant with its own rendezvous, whose ranks name different sizes: the roster fits only one of
// them. Lengths checked for one size must not be used for the other, beside another tenant's
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "service/communicator/links/peer_link.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/sim_world.h"

namespace mccs {
namespace hostile_rendezvous_test {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kHostileAddress[] = "10.0.0.9";
constexpr uint64_t kCommId = 0x1a;
constexpr int kRanks = 3;  // in the roster
constexpr uint64_t kCount = 256;
constexpr float kSecret = 4711;
constexpr int kWorld = 1 << 20;

class SimHostileRendezvous : public testing::Test {
 protected:
  SimHostileRendezvous() : world_({.seed = 1, .hosts = 1}) {
    peer_listener_ = std::make_unique<PeerListener>(
        std::move(*world_.network().HostNetwork(kHostileAddress).Listen({kHostileAddress, 7000})),
        [](const Preamble&) { return std::optional<Secret>(Secret{}); }, random_, *log_);
    id_.magic = wire::kUniqueIdMagic;
    id_.version = wire::kWireVersion;
    id_.port = 7000;
    id_.comm_id = kCommId;
    std::strcpy(id_.host, kHostileAddress);
    roster_.set_comm_id(kCommId);
    roster_.set_tenant("red");
    AddHost("h0", {SimAddress(0), kSimPort}, {0, 1, 2});
    // In the daemon's address space another tenant's memory follows each buffer.
    std::fill(memory_.begin(), memory_.end(), kSecret);
    for (int r = 0; r < kRanks; ++r) {
      tenants_.push_back(&world_.AddTenant(0, "red"));
      tenants_.back()->Register(BufferOf(r), kBufferBytes);
    }
  }

  void AddHost(const std::string& name, const Endpoint& at, const std::vector<int>& ranks) {
    peer::HostInfo* host = roster_.add_hosts();
    host->set_name(name);
    host->set_endpoint_host(at.host);
    host->set_endpoint_port(at.port);
    for (const int rank : ranks) host->add_ranks()->set_rank(rank);
  }
  std::byte* BufferOf(int r) {
    return reinterpret_cast<std::byte*>(memory_.data() + static_cast<size_t>(r) * kStride);
  }
  const float* NeighborMemory(int r) const {
    return memory_.data() + static_cast<size_t>(r) * kStride + 2 * kCount;
  }
  // All three ranks join one after the other; the rendezvous sends a roster of three ranks.
  void Join(const std::vector<std::pair<int, int>>& ranks_and_sizes) {
    ranks_.resize(kRanks);
    for (const auto& [rank, size] : ranks_and_sizes) {
      ranks_[static_cast<size_t>(rank)] =
          &tenants_[static_cast<size_t>(rank)]->Init(id_, size, rank);
      world_.RunFor(100 * kNsPerUs);
    }
    world_.RunUntil([&] {
      SendRosters();
      return std::ranges::all_of(ranks_, [](const SimRank* rank) { return rank->answered; });
    });
  }
  void SendRosters() {
    for (Peer& peer : peer_listener_->Poll(world_.clock().Now())) {
      PeerLink& link = *links_.emplace_back(std::make_unique<PeerLink>(std::move(peer.connection)));
      peer::Message message;
      *message.mutable_roster() = roster_;
      link.Send(message);
    }
    for (auto& link : links_) link->Poll();
  }

  // Posts the call on all ranks that have formed.
  void Call(OpKind kind, int root) {
    for (int r = 0; r < kRanks; ++r) {
      SimRank& rank = *ranks_[static_cast<size_t>(r)];
      if (rank.memory.data() == nullptr) continue;
      const uint32_t buffer = tenants_[static_cast<size_t>(r)]->BufferAt(BufferOf(r));
      tenants_[static_cast<size_t>(r)]->Post(
          rank, {.kind = kind,
                 .root = root,
                 .count = kCount,
                 .send = {.id = buffer, .reserved = 0, .offset = 0},
                 .recv = {.id = buffer, .reserved = 0, .offset = kCount * sizeof(float)}});
    }
    world_.RunFor(10 * kNsPerMs);
  }

  void ExpectNeighborsUnchanged() {
    for (int r = 0; r < kRanks; ++r) {
      for (size_t i = 0; i < kStride - 2 * kCount; ++i) {
        ASSERT_EQ(NeighborMemory(r)[i], kSecret)
            << "after the buffer of rank " << r << ", at " << i;
      }
      EXPECT_THAT(std::string(ranks_[static_cast<size_t>(r)]->status.text),
                  AllOf(HasSubstr("rank 0 joins with 1 ranks"), HasSubstr("rank 1 with 3")));
    }
    EXPECT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().communicators() == 0; }));
  }

  static constexpr size_t kBufferBytes = 2 * kCount * sizeof(float);
  static constexpr size_t kStride = 2 * kCount + kRanks * kCount;  // elements
  std::vector<float> memory_ = std::vector<float>(kRanks * kStride);
  SimWorld world_;
  SeededRandom random_{7};
  std::unique_ptr<Log> log_ = MakeNullLog();
  std::unique_ptr<PeerListener> peer_listener_;
  std::vector<std::unique_ptr<PeerLink>> links_;
  std::vector<SimTenant*> tenants_;
  std::vector<SimRank*> ranks_;
  wire::UniqueId id_{};
  peer::Roster roster_;
};

TEST_F(SimHostileRendezvous, GatherWritesOnlyInsideBufferForFewerRanks) {
  Join({{1, kRanks}, {2, kRanks}, {0, 1}});
  for (int r = 0; r < kRanks; ++r) {
    float* own = reinterpret_cast<float*>(BufferOf(r));
    std::fill(own, own + 2 * kCount, 1.0f);
  }
  Call(OpKind::kGather, 0);
  ExpectNeighborsUnchanged();
}

TEST_F(SimHostileRendezvous, ScatterReadsOnlyInsideBufferForFewerRanks) {
  Join({{1, kRanks}, {2, kRanks}, {0, 1}});
  for (int r = 0; r < kRanks; ++r) {
    float* own = reinterpret_cast<float*>(BufferOf(r));
    std::fill(own, own + 2 * kCount, 1.0f);
  }
  Call(OpKind::kScatter, 0);
  const float* leaked = reinterpret_cast<const float*>(BufferOf(2)) + kCount;
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(leaked[i], 1.0f) << "at " << i;
  ExpectNeighborsUnchanged();
}

TEST_F(SimHostileRendezvous, SendToRankOutsideRosterKillsNoDaemon) {
  Join({{1, kRanks}, {2, kRanks}, {0, kWorld}});
  Call(OpKind::kSend, 1'000'000);
  EXPECT_THAT(std::string(ranks_[0]->status.text),
              AllOf(HasSubstr("rank 0 joins with 1048576 ranks"), HasSubstr("rank 1 with 3")));
  EXPECT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().communicators() == 0; }));
}

TEST_F(SimHostileRendezvous, AcceptsRanksThatAgreeWithTheRoster) {
  Join({{1, kRanks}, {2, kRanks}, {0, kRanks}});
  for (SimRank* rank : ranks_) {
    ASSERT_EQ(rank->status.error, wire::ErrorClass::kNone) << rank->status.text;
    EXPECT_EQ(rank->ranks, kRanks);
  }
  Call(OpKind::kGather, 0);
  EXPECT_THAT(ranks_[0]->failure(), HasSubstr("exceed buffer"))
      << "the buffer is too small for three ranks";
}

TEST_F(SimHostileRendezvous, RejectsGrowToDifferentSizes) {
  Join({{0, kRanks}, {1, kRanks}, {2, kRanks}});
  const SimRank& four = tenants_[0]->Grow(*ranks_[0], 4);
  const SimRank& five = tenants_[1]->Grow(*ranks_[1], 5);
  ASSERT_TRUE(world_.RunUntil([&] { return four.answered && five.answered; }, kNsPerSec));
  for (const SimRank* rank : {&four, &five}) {
    EXPECT_THAT(std::string(rank->status.text),
                HasSubstr("rank 1 joins with 5 ranks, rank 0 with 4"));
  }
}

// Daemons and the controller find a communicator by its id. For an id from the environment the
// roster contains that id.
TEST_F(SimHostileRendezvous, RejectsRosterWithIdOfAnotherTenantsCommunicator) {
  SimTenant& blue = world_.AddTenant(0, "blue");
  ASSERT_TRUE(world_.GetUniqueId(blue));
  SimRank& victim = blue.Init(blue.unique_id(), 1, 0);
  ASSERT_TRUE(world_.RunUntil([&] { return victim.answered; }));
  const size_t announced = world_.host(0).controller().announced.size();

  id_.guessable = 1;
  roster_.clear_hosts();
  roster_.set_comm_id(victim.id.value());
  AddHost("h9", {kHostileAddress, 7000}, {0});
  AddHost("h0", {SimAddress(0), kSimPort}, {1});
  SimRank& hostile_rank = tenants_[1]->Init(id_, 2, 1);
  world_.RunUntil([&] {
    SendRosters();
    return hostile_rank.answered;
  });
  EXPECT_THAT(std::string(hostile_rank.status.text),
              HasSubstr("its id belongs to another communicator of this host"));
  EXPECT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().communicators() == 1; }));
  EXPECT_FALSE(victim.failed()) << victim.failure();
  EXPECT_EQ(world_.host(0).controller().announced.size(), announced);
  EXPECT_THAT(world_.host(0).controller().ended, Not(Contains(victim.id)));
}

}  // namespace hostile_rendezvous_test
}  // namespace mccs
