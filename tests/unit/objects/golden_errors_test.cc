// The messages about files with several errors.
#include <string>

#include "tests/unit/golden.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace golden_errors_test {

// Errors of single documents.
TEST(GoldenErrors, UnreadableDocuments) {
  const std::string tenants =
      Together({Document("Tenant", "a",
                         "  selector: {uids: [bob]}\n  wieght: 2\n  cap: 10\n  priority: 8\n"
                         "  quotas: {memory: 0}\n"),
                Document("Tennant", "b", "  weight: 1\n"), "kind: Tenant\n"});
  const std::string policies =
      Together({PolicyDocument("p", "  type: fair_flo\n"),
                PolicyDocument("q",
                               "  type: priority_flow\n"
                               "  parameters: {order: [h0], source_ports: 9000-8000}\n")});
  const std::string topology =
      Document("Topology", "t",
               "  racks: [{name: r0}]\n"
               "  switches: [{name: leaf0}]\n"
               "  hosts:\n"
               "    - {name: h0, rack: r9, gpus: 1, nics: [{name: nic0, switch: leaf1, "
               "capacity: 1Gbit/s}]}\n");
  const auto objects = ReadObjects({{"tenants.yaml", tenants},
                                    {"policies.yaml", policies},
                                    {"topology.yaml", topology},
                                    {"list.yaml", "- a\n- b\n"},
                                    {"empty.yaml", ""}});
  EXPECT_EQ(objects.status().code(), absl::StatusCode::kInvalidArgument);
  ExpectGolden("bad_documents.txt", std::string(objects.status().message()) + "\n");
}

// Documents that are right by themselves, but contradict each other or the stored ones.
TEST(GoldenErrors, ContradictingObjects) {
  const ObjectSet stored = After(
      {},
      Together({TopologyDocument("t"), TenantDocument("team-a", 1),
                PolicyDocument("old", "  type: fair_flow\n  selector: {tenants: [team-a]}\n")}));
  const std::string text = Together(
      {TenantDocument("b", 1, "  guarantee: 10Gbit/s\n  cap: 5Gbit/s\n"),
       PolicyDocument("new", "  type: shares\n  selector: {tenants: [team-b, team-a]}\n"),
       PolicyDocument("ring", "  type: locality_ring\n  parameters: {order: [h0, h7]}\n"),
       PolicyDocument("paths", "  type: fair_flow\n  parameters: {avoid_links: [h0/nic1]}\n"),
       TopologyDocument("u", "h[1-2]")});
  const auto plan = PlanApply(stored, Read(text));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  ExpectGolden("contradicting_objects.txt", std::string(plan.status().message()) + "\n");
}

}  // namespace golden_errors_test
}  // namespace mccs
