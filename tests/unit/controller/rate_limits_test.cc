#include "controller/rates/rate_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "controller/rates/rate_changes.h"
#include "controller/rates/sent_limits.h"
#include "controller/state/resolved_view.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace rate_limits_test {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::Property;
using testing::UnorderedElementsAre;

constexpr uint64_t kGbps = 1'000'000'000;

// Hosts h0 to h2 at one switch, each with a NIC of 50 Gb/s; communicator 1 of tenant a and 2 of b,
// both on h0 and h1.
class RateLimitsTest : public testing::Test {
 protected:
  RateLimitsTest() {
    view_ = ViewOf(TopologyOf(*Objects("", "", "").Find({ObjectKind::kTopology, "t"})).topology);
    view_.topologies.clear();
    AddCommunicator(&view_, 1, "uid 1", {"h0", "h1"});
    AddCommunicator(&view_, 2, "uid 2", {"h0", "h1"});
  }

  static ObjectSet Objects(const std::string& a, const std::string& b, const std::string& policy) {
    std::string text = Together(
        {TopologyDocument("t", "h[0-2]"), TenantDocument("a", 1, a), TenantDocument("b", 2, b)});
    if (!policy.empty()) text += "---\n" + PolicyDocument("p", "  type: " + policy + "\n");
    return After({}, text);
  }

  std::vector<agent::v1::RateLimits> Decide(const ObjectSet& objects) const {
    return DecideAll(objects).limits;
  }
  DecidedRateLimits DecideAll(const ObjectSet& objects) const {
    const ClusterView resolved = ResolveView(view_, objects);
    return DecideRateLimits(objects, resolved, Fabrics(resolved));
  }

  ClusterView view_;
};

TEST_F(RateLimitsTest, SharesGivesRatesByWeight) {
  const auto limits = Decide(Objects("  weight: 3\n", "", "shares"));
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[0].lanes_size(), 2);
  const auto rate = [](double part) {
    return Property(&agent::v1::LaneRateLimit::rate_bps,
                    static_cast<uint64_t>(std::round(part * UsableFraction(1500) * 50 * kGbps)));
  };
  EXPECT_THAT(limits[0].lanes(), Each(rate(0.75)));
  EXPECT_THAT(limits[1].lanes(), Each(rate(0.25)));
}

TEST_F(RateLimitsTest, CapAndPriorityApplyUnderEveryPolicy) {
  const auto limits = Decide(Objects("  cap: 10Gbit/s\n", "  priority: 6\n", ""));
  EXPECT_EQ(limits[0].tenant_rate_bps(), 10 * kGbps);
  EXPECT_EQ(limits[0].tenant(), "a");
  EXPECT_EQ(limits[1].tenant_rate_bps(), 0u);
  EXPECT_THAT(limits[1].lanes(), IsEmpty());
  EXPECT_EQ(limits[1].priority(), 6u);
}

// Under shares, lanes get at most their part of the cap, and the Tenant gets at most the cap for
// everything that it sends.
TEST_F(RateLimitsTest, CapLimitsLanesAndTenantUnderShares) {
  const auto limits = Decide(Objects("  cap: 10Gbit/s\n", "", "shares"));
  EXPECT_THAT(limits[0].lanes(), Each(Property(&agent::v1::LaneRateLimit::rate_bps, 10 * kGbps)));
  EXPECT_EQ(limits[0].lanes_size(), 2);
  EXPECT_EQ(limits[0].tenant_rate_bps(), 10 * kGbps);
}

TEST_F(RateLimitsTest, CapAppliesWithoutATopology) {
  const ObjectSet objects = After({}, TenantDocument("a", 1, "  cap: 10Gbit/s\n"));
  const auto limits = Decide(objects);
  EXPECT_THAT(limits[0].lanes(), IsEmpty());
  EXPECT_EQ(limits[0].tenant_rate_bps(), 10 * kGbps);
  EXPECT_EQ(limits[1].tenant_rate_bps(), 0u);
}

// The guarantees existed before the jobs.
TEST_F(RateLimitsTest, ReportsGuaranteesThatLinksCannotHold) {
  const ObjectSet kept = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 17Gbit/s\n", "shares");
  EXPECT_THAT(DecideAll(kept).broken, IsEmpty());
  const ObjectSet broken = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 20Gbit/s\n", "shares");
  EXPECT_THAT(DecideAll(broken).broken,
              Contains(HasSubstr("the guarantees of tenants a, b on it add up to 50 Gbit/s")));
}

TEST_F(RateLimitsTest, RejectsAGuaranteeThatLinksCannotHold) {
  const ObjectSet before = Objects("  guarantee: 30Gbit/s\n", "", "shares");
  const ObjectSet fits = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 17Gbit/s\n", "shares");
  const ObjectSet broken = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 20Gbit/s\n", "shares");
  EXPECT_TRUE(CheckGuarantees(before, fits, view_).ok());
  const absl::Status rejection = CheckGuarantees(before, broken, view_);
  EXPECT_EQ(rejection.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(rejection.message(),
              Mentions("Tenant 'b'", "spec.guarantee", "h0/nic0 → leaf0", "50 G", "tenants a, b",
                       FormatBitRate(UsableFraction(1500) * 50 * kGbps)));
  // The change raises no guarantee, so it is not rejected.
  EXPECT_TRUE(CheckGuarantees(broken, broken, view_).ok());
}

// Text for a change between two parts of a NIC's payload rate.
std::string Gets(double after, double before) {
  const double payload_bps = UsableFraction(1500) * 50 * 1e9;
  return absl::StrCat("fair share per host: ", FormatBitRate(before * payload_bps), " → ",
                      FormatBitRate(after * payload_bps));
}

class RateChangesTest : public RateLimitsTest {
 protected:
  static ObjectSet With(const std::string& a, const std::string& b = "") {
    return Objects(a, b, "");
  }
  std::map<CommId, std::string> To(const ObjectSet& after) const {
    return RateChanges({before_, view_}, {after, view_});
  }

  const ObjectSet before_ = With("");
};

TEST_F(RateChangesTest, OmitsUnchangedRates) {
  EXPECT_THAT(To(before_), IsEmpty());
  EXPECT_THAT(To(With("  guarantee: 1Gbit/s\n")), IsEmpty()) << "it has more";
}

TEST_F(RateChangesTest, ReportsAWeightToAllThatShareALink) {
  EXPECT_THAT(To(With("  weight: 3\n")), UnorderedElementsAre(Pair(CommId(1), Gets(0.75, 0.5)),
                                                              Pair(CommId(2), Gets(0.25, 0.5))));
}

TEST_F(RateChangesTest, ReportsChangedCapsAndPriorities) {
  const double capped = 1 / (UsableFraction(1500) * 50);
  EXPECT_THAT(To(With("  cap: 1Gbit/s\n", "  priority: 5\n")),
              UnorderedElementsAre(Pair(CommId(1), Gets(capped, 0.5) + "; cap: none → 1 Gbit/s"),
                                   Pair(CommId(2), Gets(1 - capped, 0.5) + "; priority: 0 → 5")));
}

TEST_F(RateChangesTest, ReportsOnlyCapsWithoutATopology) {
  const ObjectSet free = After({}, TenantDocument("a", 1));
  const ObjectSet capped = After({}, TenantDocument("a", 1, "  cap: 1Mbit/s\n"));
  EXPECT_THAT(RateChanges({free, view_}, {capped, view_}),
              UnorderedElementsAre(Pair(CommId(1), "cap: none → 1 Mbit/s")));
}

TEST_F(RateChangesTest, OmitsStartedAndEndedCommunicators) {
  ClusterView without = view_;
  without.communicators.pop_back();
  EXPECT_THAT(RateChanges({before_, view_}, {before_, without}),
              UnorderedElementsAre(Pair(CommId(1), Gets(1, 0.5))));
}

constexpr double kLinkBps = 50e9;  // of TopologyDocument

ObjectSet Promise(const std::string& guarantee, const ObjectSet& before = {}) {
  return After(before, TenantDocument("a", 1, "  guarantee: " + guarantee + "\n"));
}

TEST(GuaranteeLimits, RejectsAGuaranteeAboveEveryNic) {
  const ObjectSet before = After({}, TopologyDocument("t"));
  EXPECT_TRUE(CheckGuaranteesAgainstNics(before, Promise("45Gbit/s", before)).ok());
  const absl::Status rejection = CheckGuaranteesAgainstNics(before, Promise("49.9Gbit/s", before));
  EXPECT_EQ(rejection.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      rejection.message(),
      OneLineMentions("Tenant 'a'", "spec.guarantee", "h0/nic0-leaf0", "Topology 't'", "49.9 G",
                      FormatBitRate(UsableFraction(Topology::kDefaultMtuBytes) * kLinkBps)));
}

TEST(GuaranteeLimits, ChecksOnlyRaisedGuarantees) {
  const ObjectSet promised = Promise("60Gbit/s");
  EXPECT_TRUE(CheckGuaranteesAgainstNics({}, promised).ok()) << "there is no Topology yet";
  const ObjectSet described = After(promised, TopologyDocument("t"));
  EXPECT_TRUE(CheckGuaranteesAgainstNics(promised, described).ok());
  EXPECT_TRUE(CheckGuaranteesAgainstNics(described, Promise("55Gbit/s", described)).ok());
  EXPECT_FALSE(CheckGuaranteesAgainstNics(described, Promise("61Gbit/s", described)).ok());
}

TEST(GuaranteeLimits, TheFastestNicOfAllTopologiesCounts) {
  const std::string slow =
      Document("Topology", "slow",
               "  racks: [{name: r0}]\n  switches: [{name: leaf9}]\n  hosts: [{name: h9, rack: "
               "r0, gpus: 1, nics: [{name: nic0, switch: leaf9, capacity: 10Gbit/s}]}]\n");
  const ObjectSet before = After({}, slow);
  EXPECT_FALSE(CheckGuaranteesAgainstNics(before, Promise("20Gbit/s", before)).ok());
  const ObjectSet both = After(before, TopologyDocument("t"));
  EXPECT_TRUE(CheckGuaranteesAgainstNics(both, Promise("20Gbit/s", both)).ok());
}

agent::v1::RateLimits Free(uint64_t id) {
  agent::v1::RateLimits limits;
  limits.set_comm_id(id);
  return limits;
}
agent::v1::RateLimits Paced(uint64_t id, uint64_t rate) {
  agent::v1::RateLimits limits = Free(id);
  limits.add_lanes()->set_to(1);
  limits.mutable_lanes(0)->set_rate_bps(rate);
  return limits;
}

// Communicators 1 and 3 on h0, and 2 on h1 and h2.
class SentLimitsTest : public testing::Test {
 protected:
  SentLimitsTest() {
    for (const auto& [host, led] :
         {std::pair{"h0", std::vector{MakeAnnounce(1, {"h0"}), MakeAnnounce(3, {"h0"})}},
          {"h1", std::vector{MakeAnnounce(2, {"h1", "h2"})}},
          {"h2", {}}})
      Register(host, led);
  }
  void Register(const std::string& host, const std::vector<agent::v1::Announce>& led) {
    const agent::v1::FromAgent message = Registration(MakeHost(host), led);
    EXPECT_TRUE(registry_.Register(AgentKey(++agents_), message.registration(), 0).ok());
    sent_.OnRegistered(host, registry_.communicators());
  }
  std::vector<SentLimits::Update> Take() { return sent_.TakeUpdates(registry_, clocks_, 0); }
  std::vector<SentLimits::Update> Set(std::vector<agent::v1::RateLimits> limits) {
    sent_.SetLimits(std::move(limits));
    return Take();
  }

  Registry registry_;
  HostClocks clocks_;
  uint64_t agents_ = 0;
  SentLimits sent_{100};
};

TEST_F(SentLimitsTest, SendsChangesWithIncreasingRevisions) {
  const auto first = Set({Paced(1, 7), Paced(2, 8), Free(3)});
  ASSERT_EQ(first.size(), 3u) << "communicator 3 never had a limit";
  EXPECT_EQ(first[0].limits.revision(), 101u);
  EXPECT_EQ(first[1].limits.lanes(0).rate_bps(), 8u);
  EXPECT_EQ(first[1].to, AgentKey(2));
  EXPECT_EQ(first[2].to, AgentKey(3));
  EXPECT_THAT(Take(), IsEmpty());
  const auto second = Set({Paced(1, 7), Paced(2, 9)});
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].limits.comm_id(), 2u);
  EXPECT_GT(second[0].limits.revision(), first[1].limits.revision());
}

TEST_F(SentLimitsTest, SendsALiftedLimit) {
  Set({Paced(1, 7)});
  const auto lifted = Set({Free(1)});
  ASSERT_EQ(lifted.size(), 1u);
  EXPECT_EQ(lifted[0].limits.lanes_size(), 0);
  EXPECT_THAT(Set({Free(1)}), IsEmpty());
}

TEST_F(SentLimitsTest, LiftsLimitsOfAnEarlierControllerOnce) {
  EXPECT_EQ(Set({Paced(1, 7), Free(3)}).size(), 1u);
  sent_.LiftOldLimits();
  const auto lifted = Take();
  ASSERT_EQ(lifted.size(), 1u);
  EXPECT_EQ(lifted[0].limits.comm_id(), 3u);
  EXPECT_EQ(lifted[0].limits.revision(), 102u);
  EXPECT_EQ(lifted[0].limits.lanes_size(), 0);
  sent_.LiftOldLimits();
  EXPECT_THAT(Set({Paced(1, 7), Free(3)}), IsEmpty());
}

TEST_F(SentLimitsTest, SendsACapAndItsEndWithTheTenant) {
  agent::v1::RateLimits capped = Free(1);
  capped.set_tenant_rate_bps(7);
  capped.set_tenant("team-a");
  const auto sent = Set({capped});
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].limits.tenant(), "team-a");
  EXPECT_EQ(sent[0].limits.tenant_rate_bps(), 7u);
  const auto free = Set({Free(1)});
  ASSERT_EQ(free.size(), 1u);
  EXPECT_EQ(free[0].limits.tenant_rate_bps(), 0u);
}

TEST_F(SentLimitsTest, ReconnectedDaemonGetsItsLimits) {
  sent_.LiftOldLimits();
  Set({Paced(1, 7), Paced(2, 8), Free(3)});
  Register("h0", {MakeAnnounce(1, {"h0"}), MakeAnnounce(3, {"h0"})});
  const auto held = Take();
  ASSERT_EQ(held.size(), 2u) << "also the one without a limit";
  EXPECT_EQ(held[0].limits.comm_id(), 1u);
  EXPECT_EQ(held[0].limits.revision(), 101u) << "as before";
  Register("h2", {});
  ASSERT_EQ(Take().size(), 1u) << "h1 has its limits";
}

TEST_F(SentLimitsTest, LostDaemonGetsChangesWhenItReturns) {
  Set({Paced(2, 8)});
  registry_.MarkLost("h2", "its connection closed", 0);
  EXPECT_EQ(Set({Paced(2, 9)}).size(), 1u);
  Register("h2", {});
  const auto held = Take();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].limits.lanes(0).rate_bps(), 9u);
}

TEST_F(SentLimitsTest, WindowsChangeOneCommunicator) {
  Set({Paced(1, 7), Free(3)});
  clocks_.AddTrip("h0", {.sent = 1, .received_at = 1001, .answered = 1001, .returned_at = 1});
  for (const CommId id : {CommId(3), CommId(3), CommId(77)})
    sent_.SetWindows(id, PlannedWindows{.period_ns = 9, .origin = 20, .open_ns = 5});
  const auto updates = Take();
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].limits.comm_id(), 3u);
  EXPECT_EQ(updates[0].limits.send_windows().origin_ns(), 1020) << "on the host's clock";
  EXPECT_EQ(updates[0].limits.revision(), 102u);
}

}  // namespace rate_limits_test
}  // namespace mccs
