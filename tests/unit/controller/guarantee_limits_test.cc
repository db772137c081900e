#include "controller/rates/guarantee_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "base/units.h"
#include "controller/policy/shares.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace guarantee_limits_test {

constexpr double kLinkBps = 50e9;  // of TopologyDocument

ObjectSet Promise(const std::string& guarantee, const ObjectSet& before = {}) {
  return After(before, TenantDocument("a", 1, "  guarantee: " + guarantee + "\n"));
}

TEST(GuaranteeLimits, RejectsAGuaranteeAboveEveryNic) {
  const ObjectSet before = After({}, TopologyDocument("t"));
  EXPECT_TRUE(CheckGuaranteesAgainstNics(before, Promise("45Gbit/s", before)).ok());
  const absl::Status refusal = CheckGuaranteesAgainstNics(before, Promise("49.9Gbit/s", before));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(refusal.message()),
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

}  // namespace guarantee_limits_test
}  // namespace mccs
