// Proposed strategies in the registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/state/registry.h"
#include "tests/unit/controller/registry_fixture.h"

namespace mccs {
namespace registry_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class RegistryProposalsTest : public RegistryTest {};

TEST_F(RegistryProposalsTest, AProposalGetsTheNextEpoch) {
  AnnouncePair();
  EXPECT_EQ(Propose(), 2u);
  EXPECT_EQ(Propose(), 3u);
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(2, 3));
  EXPECT_EQ(Record().Applied().epoch(), 1u);
  EXPECT_EQ(Record().Newest().epoch(), 3u);
  EXPECT_EQ(registry_.View(kId).strategy.epoch(), 3u) << "policies see the newest";
  EXPECT_EQ(Record().proposed_at, now_);
}

TEST_F(RegistryProposalsTest, AnAppliedStrategyRemovesItsProposalAndOlderOnes) {
  AnnouncePair();
  for (int i = 0; i < 3; ++i) Propose();
  ASSERT_TRUE(Announce("h0", AtEpoch(AnnounceOf({"h0", "h1"}), 3)).ok());
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(4));
  EXPECT_EQ(Record().Applied().epoch(), 3u);
}

TEST_F(RegistryProposalsTest, AProposalComesAfterAllEpochsThatTheLeaderKnows) {
  AnnouncePair();
  agent::v1::Announce announce = AnnounceOf({"h0", "h1"});
  announce.set_newest_epoch(10);  // by another controller
  ASSERT_TRUE(Announce("h0", announce).ok());
  EXPECT_EQ(Propose(), 11u);
  registry_.Report("h0", ReportOf(/*epoch=*/20));
  EXPECT_EQ(Propose(), 21u);
  registry_.Report("h0", ReportOf(20, /*rejected_epoch=*/30));
  EXPECT_EQ(Propose(), 31u);
}

TEST_F(RegistryProposalsTest, OnlyTheLeaderDropsProposals) {
  AnnouncePair();
  Propose();
  Propose();
  EXPECT_FALSE(registry_.Report("h1", ReportOf(1, /*rejected_epoch=*/3)).rejected);
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(2, 3));
  EXPECT_FALSE(registry_.Report("h0", ReportOf(1, 2)).rejected) << "the newest is still open";
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(3));
  EXPECT_TRUE(registry_.Report("h0", ReportOf(1, 3)).rejected);
  EXPECT_THAT(EpochsOf(Record()), IsEmpty());
  EXPECT_FALSE(registry_.Report("h0", ReportOf(1, 3)).rejected) << "once";
  EXPECT_EQ(Propose(), 4u) << "epochs are not used again";
}

TEST_F(RegistryProposalsTest, DroppedProposalsLeaveTheAppliedStrategy) {
  AnnouncePair();
  Propose();
  registry_.DropProposals(kId);
  EXPECT_EQ(Record().Newest().epoch(), 1u);
  EXPECT_EQ(Propose(), 3u);
}

TEST_F(RegistryProposalsTest, DropsTheOldestOfTooManyProposals) {
  AnnouncePair();
  for (int i = 0; i < 100; ++i) Propose();
  const std::vector<uint64_t> epochs = EpochsOf(Record());
  EXPECT_LE(epochs.size(), 16u);
  EXPECT_EQ(epochs.back(), 101u);
  EXPECT_EQ(epochs.front(), 102u - epochs.size()) << "without gaps";
}

TEST_F(RegistryProposalsTest, OtherHostsInvalidateProposals) {
  AnnouncePair();
  Propose();
  agent::v1::Announce turned = AnnounceOf({"h0", "h1"});
  turned.mutable_hosts()->SwapElements(0, 1);
  ASSERT_TRUE(Announce("h0", turned).ok());
  EXPECT_THAT(EpochsOf(Record()), IsEmpty()) << "their rings are positions in the old order";
}

TEST_F(RegistryProposalsTest, ANewConnectionOfTheLeaderLosesUnreceivedProposals) {
  AnnouncePair();
  Propose();
  Propose();
  agent::v1::Announce announce = AnnounceOf({"h0", "h1"});
  announce.set_newest_epoch(2);
  ASSERT_TRUE(Register(kThird, "h0", {announce}).ok());
  EXPECT_THAT(EpochsOf(Record()), ElementsAre(2)) << "received, and not applied yet";
  EXPECT_EQ(Propose(), 4u);
}

TEST_F(RegistryProposalsTest, AProposalIsAwaitedUntilEveryHostHasReportedIt) {
  AnnouncePair();
  const auto report = [&](const std::string& host, uint64_t epoch, int64_t ms) {
    registry_.RecordMessage(host, now_ + ms * kNsPerMs);
    registry_.Report(host, ReportOf(epoch));
  };
  Propose();
  report("h0", 2, 100);
  report("h1", 1, 150);
  EXPECT_THAT(Record().awaited, ElementsAre("h1"));
  report("h1", 2, 250);
  EXPECT_THAT(Record().awaited, IsEmpty());
  const ProposalCounts& counts = registry_.proposal_counts();
  EXPECT_EQ(counts.applied.count(), 1u);
  EXPECT_DOUBLE_EQ(counts.applied.sum_seconds, 0.25);
  EXPECT_EQ(counts.applied.counts[5], 1u) << "above 0.1 s, up to 0.3 s";
  EXPECT_THAT(counts.by_policy, ElementsAre(Pair("daemon", 1)));
  // A later proposal supersedes one that is awaited, with a time of its own.
  Propose();
  now_ += kNsPerSec;
  Propose();
  EXPECT_EQ(counts.superseded, 1u);
  for (const char* host : {"h0", "h1"}) report(host, 4, 500);
  EXPECT_EQ(counts.applied.count(), 2u);
  EXPECT_DOUBLE_EQ(counts.applied.sum_seconds, 0.75);
}

TEST_F(RegistryProposalsTest, ARejectedProposalIsNotAwaited) {
  AnnouncePair();
  registry_.Report("h0", ReportOf(1, /*rejected_epoch=*/2));
  EXPECT_EQ(Propose(), 3u);
  registry_.Report("h0", ReportOf(1, 2));
  EXPECT_THAT(Record().awaited, ElementsAre("h0", "h1")) << "that was the last one";
  registry_.Report("h1", ReportOf(1, 3));
  EXPECT_THAT(Record().awaited, ElementsAre("h0", "h1")) << "the leader decides";
  registry_.Report("h0", ReportOf(1, 3));
  EXPECT_THAT(Record().awaited, IsEmpty());
  EXPECT_EQ(registry_.proposal_counts().rejected, 1u);
}

}  // namespace registry_test
}  // namespace mccs
