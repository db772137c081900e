#include "controller/api/enforcement_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace enforcement_status_test {

using testing::HasSubstr;

const Object& Tenant(const ObjectSet& set) { return *set.Find({ObjectKind::kTenant, "a"}); }

// Tenant a with `entitled`, hosts h0 and h1 with a NIC of 50 Gb/s each, and `more`.
ObjectSet Base(const std::string& entitled, const std::string& more = "") {
  return After({}, Together({TenantDocument("a", 1, entitled), TopologyDocument("t")}) +
                       (more.empty() ? "" : "---\n" + more));
}

std::string Shares(const std::string& spec = "") {
  return PolicyDocument("s", "  type: shares\n" + spec);
}

TEST(EnforcementStatus, EveryPolicyIsEnforced) {
  for (const PolicyTraits& type : kPolicyTraits) {
    const ObjectSet objects = Base("", ShortestPolicy("p", type));
    const Object& policy = *objects.Find({ObjectKind::kPolicy, "p"});
    EXPECT_EQ(EnforcementStatus(objects, policy), "True") << type.name;
    EXPECT_EQ(UnenforcedReason(objects, policy), "") << type.name;
  }
}

TEST(EnforcementStatus, PolicyThatPlacesFlowsNeedsATopology) {
  for (const PolicyTraits& type : kPolicyTraits) {
    const ObjectSet set = After({}, Together({TenantDocument("a", 1), ShortestPolicy("p", type)}));
    EXPECT_EQ(UnenforcedReason(set, *set.Find({ObjectKind::kPolicy, "p"})),
              type.decides.Contains(PolicyDecision::kFlows)
                  ? absl::StrCat("Policy `", type.name,
                                 "` requires a Topology, and there is none: locality_ring chooses "
                                 "rings and source ports instead; apply the Topology.")
                  : "");
  }
}

TEST(EnforcementStatus, TenantWithoutGuaranteeAndWeightIsFullyEnforced) {
  for (const char* entitled : {"  quotas: {communicators: 1, memory: 1, operations: 1}\n",
                               "  cap: 1Gbit/s\n  priority: 3\n", "  weight: 1\n"}) {
    const ObjectSet set = Base(entitled);
    EXPECT_EQ(UnenforcedReason(set, Tenant(set)), "") << entitled;
  }
}

TEST(EnforcementStatus, SharesPolicyOfTheTenantEnforcesAGuarantee) {
  const std::string entitled = "  guarantee: 10Gbit/s\n  weight: 2\n";
  for (const std::string& more : {std::string(), PolicyDocument("p", "  type: fair_flow\n"),
                                  Shares("  selector: {communicators: [000000000000000a]}\n"),
                                  Shares() + "---\n" +
                                      PolicyDocument("p",
                                                     "  type: locality_ring\n"
                                                     "  selector: {tenants: [a]}\n")}) {
    const ObjectSet set = Base(entitled, more);
    EXPECT_EQ(EnforcementStatus(set, Tenant(set)), "Partial") << more;
    EXPECT_THAT(UnenforcedReason(set, Tenant(set)),
                Mentions("Tenant 'a'", "guarantee of 10 G", "weight of 2"))
        << more;
  }
  for (const std::string& more : {Shares(), Shares("  selector: {tenants: [a]}\n"),
                                  Shares("  selector: {tenants: [a]}\n") + "---\n" +
                                      PolicyDocument("p", "  type: fair_flow\n")}) {
    const ObjectSet set = Base(entitled, more);
    EXPECT_EQ(UnenforcedReason(set, Tenant(set)), "") << more;
  }
}

TEST(EnforcementStatus, SharesNeedATopology) {
  const ObjectSet shared =
      After({}, Together({TenantDocument("a", 1, "  guarantee: 10Gbit/s\n"), Shares()}));
  EXPECT_THAT(UnenforcedReason(shared, Tenant(shared)), Mentions("guarantee of 10 G", "Topology"));
  const ObjectSet neither = After({}, TenantDocument("a", 1, "  cap: 10Gbit/s\n  priority: 3\n"));
  EXPECT_EQ(UnenforcedReason(neither, Tenant(neither)), "")
      << "daemons enforce caps without a Topology";
}

// Possible if the Topology is applied later.
TEST(EnforcementStatus, GuaranteeAboveEveryNicIsEnforcedInPart) {
  const ObjectSet set = Base("  guarantee: 60Gbit/s\n", Shares());
  EXPECT_THAT(UnenforcedReason(set, Tenant(set)),
              Mentions("guarantee of Tenant 'a'", "lowered", "NIC"));
}

// Two leaves and two spines; `host` and `at` are the addresses of h0's NIC and of all switches.
std::string OfFabric(const std::string& mapping, const std::string& host, const std::string& at) {
  const ObjectSet set = After(
      {},
      Document("Topology", "t",
               absl::StrCat(
                   "  racks: [{name: r0}]\n"
                   "  switches: [{name: \"leaf[0-1],spine[0-1]\"",
                   at,
                   "}]\n"
                   "  hosts:\n"
                   "    - {name: h0, rack: r0, gpus: 1, nics: [{name: n, switch: leaf0, capacity: "
                   "10Gbit/s",
                   host,
                   "}]}\n"
                   "    - {name: h1, rack: r0, gpus: 1, nics: [{name: n, switch: leaf1, capacity: "
                   "10Gbit/s, address: 10.0.0.2}]}\n"
                   "  links: [{ends: [\"leaf[0-1]\", \"spine[0-1]\"], capacity: 10Gbit/s}]\n"
                   "  source_ports: {",
                   mapping, "}\n")));
  const std::vector<const Object*> topologies = set.OfKind(ObjectKind::kTopology);
  return topologies.size() == 1 ? UnenforcedReason(set, *topologies[0]) : "not read";
}

TEST(EnforcementStatus, PathsAreKnownOnlyForIpv4Addresses) {
  const std::string v4 = ", address: 10.0.0.1", v6 = ", address: \"fd00::1\"";
  const std::string at = ", addresses: [\"10.1.0.[0-3]\"]";
  EXPECT_EQ(OfFabric("mapping: probe", v4, at), "");
  EXPECT_THAT(OfFabric("mapping: probe", v4, ""), HasSubstr("IPv4 `addresses` of its switches"));
  for (const std::string mapping :
       {"mapping: probe", "mapping: hash, hash: {name: linux-multipath, seed: 1}"}) {
    for (const std::string& host : {v6, std::string()})
      EXPECT_THAT(OfFabric(mapping, host, at), HasSubstr("NIC h0/n has no IPv4 `address`"));
  }
}

}  // namespace enforcement_status_test
}  // namespace mccs
