#include "controller/rates/rate_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "controller/policy/shares.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace rate_changes_test {

using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr double kGbps = 1e9;

// Text for a change between two parts of a NIC's payload rate.
std::string Gets(double after, double before) {
  const double payload_bps = UsableFraction(1500) * 50 * kGbps;
  return absl::StrCat("fair share ", FormatBitRate(after * payload_bps),
                      " out of a host instead of ", FormatBitRate(before * payload_bps));
}

// Hosts h0 and h1 at one switch, with a NIC of 50 Gb/s each, and communicator 1 of tenant a and 2
// of b on both.
class RateChangesTest : public testing::Test {
 protected:
  static ObjectSet Objects(const std::string& a, const std::string& more = "") {
    return After({}, Together({TopologyDocument("t"), TenantDocument("a", 1, a),
                               TenantDocument("b", 2, more)}));
  }
  RateChangesTest() {
    view_ = ViewOf(TopologyOf(*before_.Find({ObjectKind::kTopology, "t"})).topology);
    view_.topologies.clear();
    AddCommunicator(&view_, 1, "uid 1", {"h0", "h1"});
    AddCommunicator(&view_, 2, "uid 2", {"h0", "h1"});
  }
  std::map<CommId, std::string> To(const ObjectSet& after) const {
    return RateChanges({before_, view_}, {after, view_});
  }

  const ObjectSet before_ = Objects("");
  ClusterView view_;
};

TEST_F(RateChangesTest, OmitsUnchangedRates) {
  EXPECT_THAT(To(before_), IsEmpty());
  EXPECT_THAT(To(Objects("  guarantee: 1Gbit/s\n")), IsEmpty()) << "it has more";
}

TEST_F(RateChangesTest, ReportsAWeightToAllThatShareALink) {
  EXPECT_THAT(To(Objects("  weight: 3\n")), UnorderedElementsAre(Pair(CommId(1), Gets(0.75, 0.5)),
                                                                 Pair(CommId(2), Gets(0.25, 0.5))));
}

TEST_F(RateChangesTest, ReportsChangedCapsAndPriorities) {
  const double capped = kGbps / (UsableFraction(1500) * 50 * kGbps);
  EXPECT_THAT(
      To(Objects("  cap: 1Gbit/s\n", "  priority: 5\n")),
      UnorderedElementsAre(Pair(CommId(1), Gets(capped, 0.5) + "; cap 1 Gbit/s instead of none"),
                           Pair(CommId(2), Gets(1 - capped, 0.5) + "; priority 5 instead of 0")));
}

TEST_F(RateChangesTest, ReportsOnlyCapsWithoutATopology) {
  const ObjectSet free = After({}, TenantDocument("a", 1));
  const ObjectSet capped = After({}, TenantDocument("a", 1, "  cap: 1Mbit/s\n"));
  EXPECT_THAT(RateChanges({free, view_}, {capped, view_}),
              UnorderedElementsAre(Pair(CommId(1), "cap 1 Mbit/s instead of none")));
}

TEST_F(RateChangesTest, OmitsStartedAndEndedCommunicators) {
  ClusterView without = view_;
  without.communicators.pop_back();
  EXPECT_THAT(RateChanges({before_, view_}, {before_, without}),
              UnorderedElementsAre(Pair(CommId(1), Gets(1, 0.5))));
}

}  // namespace rate_changes_test
}  // namespace mccs
