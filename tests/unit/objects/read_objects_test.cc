#include "controller/objects/read_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/objects/object.h"
#include "proto/message_limits.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace read_objects_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ReadObjects, ReadsATenantWithAllFields) {
  const auto objects =
      Read(Document("Tenant", "team-a",
                    "  selector:\n"
                    "    uids: [1001, 1000]\n"
                    "    sockets: [team-a]\n"
                    "    cgroups: [/jobs/a]\n"
                    "  weight: 2.5\n"
                    "  guarantee: 10Gbit/s\n"
                    "  cap: 40Gbit/s\n"
                    "  priority: 5\n"
                    "  quotas: {communicators: 16, memory: 64GiB, operations: 9}\n",
                    7));
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].version, 7u);
  const TenantSpec& tenant = TenantOf(objects[0]);
  EXPECT_THAT(tenant.uids, ElementsAre(1001, 1000));
  EXPECT_THAT(tenant.sockets, ElementsAre("team-a"));
  EXPECT_THAT(tenant.cgroups, ElementsAre("/jobs/a"));
  EXPECT_EQ(tenant.weight, 2.5);
  EXPECT_EQ(tenant.guarantee_bps, 10'000'000'000u);
  EXPECT_EQ(tenant.cap_bps, 40'000'000'000u);
  EXPECT_EQ(tenant.priority, 5u);
  EXPECT_EQ(tenant.max_communicators, 16u);
  EXPECT_EQ(tenant.max_memory_bytes, uint64_t{64} << 30);
  EXPECT_EQ(tenant.max_operations, 9u);
}

TEST(ReadObjects, ReadsAPolicyWithAllFields) {
  const auto objects = Read(Document("Policy", "gold",
                                     "  type: priority_flow\n"
                                     "  parameters:\n"
                                     "    source_ports: 61000-61999\n"
                                     "    favoured: [a]\n"
                                     "    reserved_links: [leaf0-spine1]\n"
                                     "  selector:\n"
                                     "    tenants: [b, a]\n"));
  ASSERT_EQ(objects.size(), 1u);
  const PolicySpec& policy = PolicyOf(objects[0]);
  EXPECT_EQ(policy.type, PolicyKind::kPriorityFlow);
  EXPECT_EQ(policy.parameters.source_ports, (SourcePortRange{61000, 61999}));
  EXPECT_THAT(policy.parameters.favoured, ElementsAre("a"));
  EXPECT_THAT(policy.tenants, ElementsAre("b", "a"));
  EXPECT_TRUE(policy.sizes.IsAll());
  EXPECT_FALSE(policy.Decides(PolicyDecision::kAlgorithms));
}

TEST(ReadObjects, ReadsAPolicyForSomeSizes) {
  const auto objects = Read(PolicyDocument("small",
                                           "  type: algorithm\n"
                                           "  parameters: {algorithm: tree, calls: [reduce]}\n"
                                           "  selector:\n"
                                           "    sizes: {min_bytes: 1MiB, max_bytes: 64MiB}\n"));
  ASSERT_EQ(objects.size(), 1u);
  const PolicySpec& policy = PolicyOf(objects[0]);
  EXPECT_TRUE(policy.Decides(PolicyDecision::kAlgorithms));
  EXPECT_EQ(policy.parameters.algorithm, Algorithm::kTree);
  EXPECT_THAT(KindsOf(policy), ElementsAre(OpKind::kReduce));
  EXPECT_EQ(ToText(policy.sizes), "1 MiB to 64 MiB");
}

TEST(ReadObjects, AlgorithmWithoutCallsAppliesToAllItSupports) {
  const auto kinds = [](const std::string& algorithm) {
    return KindsOf(PolicyOf(Read(PolicyDocument(
        "p", "  type: algorithm\n  parameters: {algorithm: " + algorithm + "}\n"))[0]));
  };
  EXPECT_THAT(kinds("ring"),
              ElementsAre(OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                          OpKind::kBroadcast, OpKind::kReduce));
  EXPECT_THAT(kinds("tree"), ElementsAre(OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce));
  EXPECT_THAT(kinds("direct"), ElementsAre(OpKind::kAllReduce, OpKind::kAllToAll));
  EXPECT_THAT(kinds("grid"), ElementsAre(OpKind::kAllToAll));
  EXPECT_THAT(kinds("pat"), ElementsAre(OpKind::kAllGather, OpKind::kReduceScatter));
}

TEST(ReadObjects, ReadsATopology) {
  const auto objects = Read(TopologyDocument("testbed"));
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(TopologyOf(objects[0]).topology->hosts().size(), 2u);
  EXPECT_TRUE(TopologyOf(objects[0]).topology->FindLink("h1/nic0-leaf0").has_value());
}

TEST(ReadObjects, ReadsSeveralFilesAndDocumentsInOrder) {
  const auto objects =
      ReadObjects({{"a.yaml", Together({TenantDocument("b", 1), TenantDocument("a", 2)})},
                   {"empty.yaml", "# nothing\n---\n"},
                   {"c.yaml", TenantDocument("c", 3) + "---\n"}});
  ASSERT_TRUE(objects.ok()) << objects.status();
  ASSERT_EQ(objects->size(), 3u);
  EXPECT_EQ((*objects)[0].key.name, "b");
  EXPECT_EQ((*objects)[2].key.name, "c");
  EXPECT_EQ(PlaceOf((*objects)[1], "metadata.name"), "a.yaml:12:9");
  EXPECT_EQ(PlaceOf((*objects)[1], "spec.selector.uids[0]"), "a.yaml:14:21");
  EXPECT_EQ(PlaceOf((*objects)[1], "spec.selector.sockets[3]"), "a.yaml:14:13") << "what holds it";
  EXPECT_EQ(PlaceOf((*objects)[1], "nothing.there"), "a.yaml:9:1");
}

TEST(ReadObjects, ReadsDeclaredSockets) {
  const auto objects = Read(
      Document("Tenant", "a", "  sockets: [{path: a/x.sock, mode: '0600', gid: 7}, {path: y}]\n"));
  const TenantSpec& tenant = TenantOf(objects.at(0));
  const std::vector<DeclaredSocket> expected = {{.path = "a/x.sock", .mode = 0600, .gid = 7},
                                                {.path = "y"}};
  EXPECT_EQ(tenant.declared_sockets, expected);
  EXPECT_EQ(tenant.declared, "a");
}

TEST(ReadObjects, TheDefaultTenantHasAllQuotasAndNeedsNoSelector) {
  const std::string quotas = "  quotas: {communicators: 4, memory: 1GiB, operations: 2}\n";
  const auto objects = Read(Document("Tenant", "default", quotas));
  EXPECT_TRUE(TenantOf(objects.at(0)).unclaimed);
  EXPECT_EQ(ProcessesText(TenantOf(objects.at(0))), "all others");
  EXPECT_FALSE(TenantOf(Read(TenantDocument("a", 1)).at(0)).unclaimed);
  EXPECT_THAT(
      ReadObjects({{"a.yaml", Document("Tenant", "default", "  quotas: {communicators: 4}\n")}})
          .status()
          .message(),
      HasSubstr("give it quotas for communicators, memory and operations"));
  EXPECT_THAT(ReadObjects({{"a.yaml", Document("Tenant", "other", quotas)}}).status().message(),
              HasSubstr("the key 'spec.selector' is missing"));
}

TEST(ReadObjects, RejectsSocketPathsOutsideTheDirectory) {
  for (const auto& [path, why] : {std::pair{"/run/a.sock", "relative to `socket_dir`"},
                                  {"../a.sock", "within `socket_dir`"},
                                  {"a/../b", "within `socket_dir`"},
                                  {"a//b", "within `socket_dir`"},
                                  {"a/", "within `socket_dir`"},
                                  {"'a b'", "expected letters"},
                                  {"''", "1 to 64"}}) {
    const auto objects = ReadObjects(
        {{"a.yaml", Document("Tenant", "a", absl::StrCat("  sockets: [{path: ", path, "}]\n"))}});
    EXPECT_THAT(objects.status().message(), HasSubstr(why)) << path;
  }
  EXPECT_THAT(
      ReadObjects({{"a.yaml", Document("Tenant", "a", "  sockets: [{path: a, mode: 'rw'}]\n")}})
          .status()
          .message(),
      HasSubstr("octal"));
}

TEST(ReadObjects, EmittedDocumentsReadBackEqual) {
  for (const std::string& text : {
           TenantDocument("plain", 7),
           Document("Tenant", "declares",
                    "  sockets: [{path: d/a.sock, mode: '0600', uid: 0, gid: 7}, "
                    "{path: b}]\n"),
           Document("Tenant", "odd",
                    "  selector: {sockets: ['1000', 'a: b', \"# no\", '~'], cgroups: ['/a b']}\n"
                    "  weight: 0.1\n  guarantee: 1234567891bit/s\n  cap: 187.5Gbit/s\n"
                    "  quotas: {memory: 1000001}\n"),
           Document("Tenant", "heavy", "  selector: {uids: [1]}\n  weight: 1000000\n"),
           PolicyDocument("default", "  type: shares\n"),
           Document("Tenant", "default",
                    "  quotas: {communicators: 4, memory: 1GiB, operations: 2}\n"),
           PolicyDocument("small",
                          "  type: locality_ring\n"
                          "  parameters: {order: [h1, h0], port_seed: 18446744073709551615}\n"
                          "  selector: {communicators: ['0000000000000001']}\n"),
           PolicyDocument(
               "avoiding",
               "  type: fair_flow\n  parameters: {avoid_links: [x], channels_per_nic: 2}\n"),
           PolicyDocument("large",
                          "  type: algorithm\n"
                          "  parameters: {algorithm: ring, calls: [broadcast, all_reduce]}\n"
                          "  selector: {sizes: {min_bytes: 1000001}}\n"),
           TopologyDocument("testbed"),
       }) {
    const auto once = Read(text);
    ASSERT_EQ(once.size(), 1u) << text;
    const std::string document = DocumentOf(once[0], /*with_version=*/false);
    const auto again = Read(document);
    ASSERT_EQ(again.size(), 1u) << document;
    EXPECT_TRUE(once[0].spec == again[0].spec) << document;
    EXPECT_EQ(DocumentOf(again[0], false), document);
  }
}

TEST(ReadObjects, ReportsErrorsOfAllFilesWithPlaceAndRemedy) {
  const auto objects = ReadObjects({
      {"a.yaml", Together({Document("Tenant", "a", "  selector: {uids: [x]}\n"),
                           Document("Tenant", "b", "  selector: {uids: [1]}\n  wieght: 2\n")})},
      {"b.yaml", "kind: Tenant\n"},
  });
  const std::string text(objects.status().message());
  EXPECT_THAT(text, Mentions("a.yaml:7:21", "Tenant 'a'", "'x'"));
  EXPECT_THAT(text, Mentions("a.yaml:15:3", "Tenant 'b'", "'wieght'", "'weight'"));
  EXPECT_THAT(text, HasSubstr("b.yaml:1:1: the key 'apiVersion' is missing"));
}

// One error each, at the document that has it.
TEST(ReadObjects, ReportsMissingKeysInTheirDocument) {
  const std::string fine = TenantDocument("a", 1);
  EXPECT_EQ(Rejection(Together({fine, "apiVersion: mccs/v1\nkind: Tenant\nmetadata: {name: b}\n"})),
            "a.yaml:9:1: Tenant 'b': the key 'spec' is missing");
  EXPECT_THAT(Rejection(Together({fine, PolicyDocument("p", "  type: priority_flow\n")})),
              OneLineMentions("a.yaml:14:3", "Policy 'p'", "priority_flow", "'favoured'"));
  EXPECT_THAT(
      Rejection(Together({fine, PolicyDocument("p",
                                               "  type: fair_flow\n"
                                               "  parameters: {source_ports: 3000-2000}\n")})),
      OneLineMentions("a.yaml:15:30", "Policy 'p'", "'source_ports'", "'3000-2000'"));
  EXPECT_THAT(Rejection(Together({fine, Document("Tenant", "b", "  selector: {uids: [bob]}\n")})),
              OneLineMentions("a.yaml:14:21", "Tenant 'b'", "'bob'", "`id -u`"));
  EXPECT_THAT(Rejection(Together({fine, "kind: Tenant\n"})),
              HasSubstr("a.yaml:9:1: the key 'apiVersion' is missing"));
}

TEST(ReadObjects, RejectsTooManyNamesOfAPolicy) {
  std::string links = "l0";
  for (size_t i = 1; i <= kMaxNamesOfParameter; ++i) absl::StrAppend(&links, ", l", i);
  const auto read = ReadObjects(
      {{"a.yaml",
        PolicyDocument("p", "  type: fair_flow\n  parameters: {avoid_links: [" + links + "]}\n")}});
  EXPECT_THAT(read.status().message(), testing::HasSubstr("16385 names: expected at most 16384"));
}

// To copy the spec would call yaml-cpp's writer once per level.
TEST(ReadObjects, RejectsALongChainOfAliases) {
  std::string text = "apiVersion: mccs/v1\nkind: Topology\nmetadata: {name: t}\nx:\n- &a0 [1]\n";
  for (int i = 1; i < 50'000; ++i) absl::StrAppend(&text, "- &a", i, " [*a", i - 1, "]\n");
  absl::StrAppend(&text, "spec: *a49999\n");
  EXPECT_THAT(std::string(ReadObjects({{"a.yaml", text}}).status().message()),
              HasSubstr("nested too deeply: at most 32 levels"));
}

TEST(ReadObjects, RejectsMoreTextThanARequestMayHave) {
  const std::string half(kMaxObjectTextBytes / 2 + 1, '#');
  const absl::Status status = ReadObjects({{"a.yaml", half}, {"b.yaml", half}}).status();
  EXPECT_EQ(status.message(),
            "a.yaml: the files of one request exceed 3 MiB in total; apply them in several calls");
}

TEST(ReadObjects, ReportsAFileWithoutObjects) {
  EXPECT_THAT(Rejection("# nothing\n---\n"),
              OneLineMentions("a.yaml", "no object", "apiVersion", "kind", "metadata", "spec"));
  EXPECT_TRUE(ReadObjects({}).ok());
}

struct Rejected {
  const char* what;
  std::string text;
  const char* named;  // place, object, key and value that the message mentions, between '|'
};

class Rejections : public testing::TestWithParam<Rejected> {};

TEST_P(Rejections, NamePlaceObjectAndField) {
  const std::string message = Rejection(GetParam().text);
  for (const auto field : absl::StrSplit(GetParam().named, '|'))
    EXPECT_THAT(message, HasSubstr(std::string(field)));
}

INSTANTIATE_TEST_SUITE_P(
    Envelope, Rejections,
    testing::Values(
        Rejected{"version", "apiVersion: mccs/v2\nkind: Tenant\nmetadata: {name: a}\nspec: {}\n",
                 "a.yaml:1:13|Tenant 'a'|'mccs/v2'"},
        Rejected{"kind", "apiVersion: mccs/v1\nkind: Tennant\nmetadata: {name: a}\nspec: {x: 1}\n",
                 "a.yaml:2:7: unknown kind 'Tennant'; did you mean 'Tenant'?"},
        Rejected{"strange_kind", "apiVersion: mccs/v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n",
                 "'Pod'|unknown kind"},
        Rejected{"name", Document("Tenant", "'a b'", "  selector: {uids: [1]}\n"),
                 "a.yaml:4:9|Tenant 'a b'|name|63 letters"},
        Rejected{"resource_version",
                 "apiVersion: mccs/v1\nkind: Tenant\n"
                 "metadata: {name: a, resourceVersion: 0}\nspec: {selector: {uids: [1]}}\n",
                 "versions start at 1"},
        Rejected{"no_spec", "apiVersion: mccs/v1\nkind: Policy\nmetadata: {name: a}\n",
                 "the key 'spec' is missing"},
        Rejected{"labels",
                 "apiVersion: mccs/v1\nkind: Tenant\nmetadata: {name: a, labels: {}}\n"
                 "spec: {selector: {uids: [1]}}\n",
                 "a.yaml:3:21|Tenant 'a'|'labels'|unknown key"},
        Rejected{"list", "- a\n- b\n", "a.yaml:1:1: expected 'key: value' lines, found a list"},
        Rejected{"broken", "apiVersion: [mccs\n", "malformed YAML"}),
    [](const auto& info) { return std::string(info.param.what); });

INSTANTIATE_TEST_SUITE_P(
    Tenants, Rejections,
    testing::Values(Rejected{"empty_selector", Document("Tenant", "a", "  selector: {}\n"),
                             "a.yaml:6:13|Tenant 'a'|'selector'|empty"},
                    Rejected{"no_selector", Document("Tenant", "a", "  weight: 1\n"),
                             "the key 'spec.selector' is missing"},
                    Rejected{"uid_twice",
                             Document("Tenant", "a", "  selector: {uids: [1, 2, 1]}\n"),
                             "a.yaml:6:27: Tenant 'a': '1' is a duplicate"},
                    Rejected{"cgroup", Document("Tenant", "a", "  selector: {cgroups: [jobs]}\n"),
                             "invalid control group 'jobs': expected an absolute path"},
                    Rejected{"cgroup_above",
                             Document("Tenant", "a", "  selector: {cgroups: [/a/../b]}\n"),
                             "invalid control group '/a/../b'"},
                    Rejected{"weight", TenantDocument("a", 1, "  weight: 0\n"),
                             "a.yaml:7:11: Tenant 'a': 'weight': expected 0.000001 to 1000000"},
                    Rejected{"weight_that_vanishes", TenantDocument("a", 1, "  weight: 5e-324\n"),
                             "a.yaml:7:11: Tenant 'a': 'weight': expected 0.000001 to 1000000"},
                    Rejected{"weight_that_is_none", TenantDocument("a", 1, "  weight: .nan\n"),
                             "Tenant 'a': 'weight': expected"},
                    Rejected{"rate", TenantDocument("a", 1, "  cap: 10\n"),
                             "a.yaml:7:8: Tenant 'a': 'cap': expected a rate"},
                    Rejected{"priority", TenantDocument("a", 1, "  priority: 8\n"),
                             "a.yaml:7:13: Tenant 'a': 'priority': expected 0 to 7"},
                    Rejected{"quota", TenantDocument("a", 1, "  quotas: {memory: 0}\n"),
                             "'memory': expected 1 or more; omit it for no limit"},
                    Rejected{"quota_text", TenantDocument("a", 1, "  quotas: {operations: many}\n"),
                             "'operations': expected an integer"}),
    [](const auto& info) { return std::string(info.param.what); });

INSTANTIATE_TEST_SUITE_P(
    Policies, Rejections,
    testing::Values(
        Rejected{"unknown", PolicyDocument("p", "  type: fair_flo\n"),
                 "a.yaml:6:9|Policy 'p'|'fair_flo'|'fair_flow'|policy type|unknown policy"},
        Rejected{"strange", PolicyDocument("p", "  type: x\n"), "'x'|policy type|unknown policy"},
        Rejected{"foreign_parameter",
                 PolicyDocument("p", "  type: shares\n  parameters: {order: [h0]}\n"),
                 "a.yaml:7:23|Policy 'p'|policy shares|no parameter 'order'|channels_per_nic"},
        Rejected{"unknown_parameter",
                 PolicyDocument("p", "  type: fair_flow\n  parameters: {avoid_link: [x]}\n"),
                 "unknown key 'avoid_link'; did you mean 'avoid_links'?"},
        Rejected{"needed", PolicyDocument("p", "  type: priority_flow\n"),
                 "policy priority_flow requires 'favoured': name at least one"},
        Rejected{"ports",
                 PolicyDocument("p",
                                "  type: locality_ring\n"
                                "  parameters: {source_ports: 9000-8000}\n"),
                 "a.yaml:7:30|'source_ports'|FIRST-LAST|1024|found '9000-8000'"},
        Rejected{"sizes",
                 PolicyDocument("p",
                                "  type: algorithm\n  parameters: {algorithm: ring}\n"
                                "  selector: {sizes: {min_bytes: 2MiB, max_bytes: 1MiB}}\n"),
                 "'max_bytes' (1 MiB) is below 'min_bytes' (2 MiB): raise it"},
        Rejected{"sizes_of_rings",
                 PolicyDocument("p", "  type: shares\n  selector: {sizes: {min_bytes: 2MiB}}\n"),
                 "a.yaml:7:21|Policy 'p'|'sizes'|policy shares"},
        Rejected{"former_selector_of_a_tenant", Document("Tenant", "a", "  who: {uids: [1]}\n"),
                 "a.yaml:6:8|Tenant 'a'|'spec.who'|'selector'"},
        Rejected{"former_selector_of_a_policy",
                 PolicyDocument("p", "  type: shares\n  for: {tenants: [a]}\n"),
                 "a.yaml:7:8|Policy 'p'|'spec.for'|'selector'"},
        Rejected{"former_type", PolicyDocument("p", "  policy: shares\n"),
                 "a.yaml:6:11|Policy 'p'|'spec.policy'|'type'"},
        Rejected{"former_sizes",
                 PolicyDocument("p",
                                "  type: algorithm\n  parameters: {algorithm: ring}\n"
                                "  selector: {sizes: {below: 1MiB}}\n"),
                 "'spec.selector.sizes.below' was renamed; use 'max_bytes'"},
        Rejected{"former_lowest_size",
                 PolicyDocument("p",
                                "  type: algorithm\n  parameters: {algorithm: ring}\n"
                                "  selector: {sizes: {from: 1MiB}}\n"),
                 "'spec.selector.sizes.from' was renamed; use 'min_bytes'"},
        Rejected{"former_ports",
                 PolicyDocument("p",
                                "  type: rank_order\n"
                                "  parameters: {source_ports: {first: 9000, last: 9009}}\n"),
                 "a.yaml:7:30|'source_ports'|FIRST-LAST"},
        Rejected{"no_algorithm", PolicyDocument("p", "  type: algorithm\n"),
                 "policy algorithm requires 'algorithm': ring, tree, direct, pat or grid"},
        Rejected{"unknown_algorithm",
                 PolicyDocument("p", "  type: algorithm\n  parameters: {algorithm: star}\n"),
                 "unknown algorithm 'star': expected ring, tree, direct, pat or grid"},
        Rejected{"call_of_another_algorithm",
                 PolicyDocument("p",
                                "  type: algorithm\n"
                                "  parameters: {algorithm: direct, calls: [broadcast]}\n"),
                 "a.yaml:7:43|Policy 'p'|does not support 'broadcast'|'direct'"},
        Rejected{"call_without_choice",
                 PolicyDocument("p",
                                "  type: algorithm\n"
                                "  parameters: {algorithm: ring, calls: [gather]}\n"),
                 "'gather'|all_reduce, all_gather, reduce_scatter, broadcast, reduce"},
        Rejected{"both",
                 PolicyDocument("p",
                                "  type: shares\n  selector: {tenants: [a], communicators: "
                                "['00000000000000ab']}\n"),
                 "a policy selects either tenants or communicators"},
        Rejected{"id", PolicyDocument("p", "  type: shares\n  selector: {communicators: [3f2a]}\n"),
                 "a.yaml:7:30|Policy 'p'|'3f2a'|16 hexadecimal"},
        Rejected{"tenant_twice",
                 PolicyDocument("p", "  type: shares\n  selector: {tenants: [a, a]}\n"),
                 "'a' is a duplicate"},
        Rejected{"no_tenants", PolicyDocument("p", "  type: shares\n  selector: {tenants: []}\n"),
                 "a.yaml:7:23: Policy 'p': 'tenants' is empty"},
        Rejected{"nameless", PolicyDocument("p", "  type: shares\n  selector: {tenants: ['']}\n"),
                 "empty name"}),
    [](const auto& info) { return std::string(info.param.what); });

INSTANTIATE_TEST_SUITE_P(
    Topologies, Rejections,
    testing::Values(Rejected{"unknown_switch",
                             Document("Topology", "t",
                                      "  racks: [{name: r0}]\n  switches: [{name: leaf0}]\n"
                                      "  hosts:\n    - {name: h0, rack: r0, gpus: 1, nics: [{name: "
                                      "n, switch: leaf1, capacity: 1Gbit/s}]}\n"),
                             "leaf1"},
                    Rejected{"no_mapping", Document("Topology", "t", "  - a\n"),
                             "'spec': expected a mapping"}),
    [](const auto& info) { return std::string(info.param.what); });

}  // namespace read_objects_test
}  // namespace mccs
