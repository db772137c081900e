#include "controller/state/drains.h"

#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"
#include "controller/state/resolved_view.h"
#include "tests/unit/controller/coordinator_fixture.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace drains_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTopology[] = R"(apiVersion: mccs/v1
kind: Topology
metadata: {name: fabric}
spec:
  racks: [{name: r0}]
  switches: [{name: "leaf0,spine0"}]
  hosts: [{name: h0, rack: r0, gpus: 1, nics: [{name: nic0, switch: leaf0, capacity: 10Gbit/s}]}]
  links: [{ends: [leaf0, spine0], capacity: 10Gbit/s}]
---
)";

std::string Drain(const std::string& name, const std::string& spec) {
  return "apiVersion: mccs/v1\nkind: Drain\nmetadata: {name: " + name + "}\nspec: {" + spec +
         "}\n---\n";
}

absl::StatusOr<ObjectSet> Apply(const std::string& text, const ObjectSet& stored = {}) {
  auto read = ReadObjects({{"d.yaml", text}});
  if (!read.ok()) return read.status();
  auto planned = PlanApply(stored, *std::move(read));
  if (!planned.ok()) return planned.status();
  return planned->next;
}

std::string Rejection(const std::string& text) {
  const auto applied = Apply(text);
  return applied.ok() ? "applied" : std::string(applied.status().message());
}

TEST(Drains, SurviveARoundTripAsObjects) {
  const auto set = Apply(Drain("host.h1", "host: h1, reason: 'new memory: 2 TB'"));
  ASSERT_TRUE(set.ok()) << set.status();
  const Object* drain = FindHostDrain(*set, "h1");
  ASSERT_NE(drain, nullptr);
  EXPECT_EQ(DrainOf(*drain).reason, "new memory: 2 TB");
  const auto again = Apply(DocumentOf(*drain, /*with_version=*/false));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(DrainOf(*FindHostDrain(*again, "h1")), DrainOf(*drain));
  EXPECT_EQ(FindHostDrain(*set, "h2"), nullptr);
  EXPECT_EQ(FindLinkDrain(*set, "h1"), nullptr);
}

TEST(Drains, RejectsInvalidSpecs) {
  EXPECT_THAT(Rejection(Drain("d", "host: h1, link: leaf0-spine0")), HasSubstr("write two"));
  EXPECT_THAT(Rejection(Drain("d", "reason: because")), HasSubstr("'spec.host' is missing"));
  EXPECT_THAT(Rejection(Drain("d", "host: ''")), HasSubstr("the name is empty"));
  EXPECT_THAT(Rejection(Drain("d", "host: h1, until: tomorrow")), HasSubstr("'until'"));
  EXPECT_THAT(Rejection(Drain("a", "host: h1") + Drain("b", "host: h1")),
              HasSubstr("host h1 is already drained by Drain 'a'"));
  EXPECT_THAT(Rejection(std::string(kTopology) + Drain("d", "link: leaf0-spine1")),
              HasSubstr("unknown link 'leaf0-spine1'"));
  EXPECT_EQ(Rejection(std::string(kTopology) + Drain("d", "link: leaf0-spine0")), "applied");
}

TEST(Drains, TopologyWithADrainedLinkCannotBeDeleted) {
  const auto set = Apply(std::string(kTopology) + Drain("d", "link: leaf0-spine0"));
  ASSERT_TRUE(set.ok()) << set.status();
  const auto without = PlanDelete(*set, {{ObjectKind::kTopology, "fabric"}});
  EXPECT_THAT(without.status().message(),
              HasSubstr("Drain 'd' (stored, version 1) still refers to it in spec.link"));
}

TEST(Drains, NamesAreValidObjectNames) {
  EXPECT_EQ(DrainName({.host = "h1", .link = "", .reason = ""}), "host.h1");
  EXPECT_EQ(DrainName({.host = "", .link = "h1/nic0-leaf0", .reason = ""}), "link.h1.nic0-leaf0");
  const std::string longer(80, 'x');
  const std::string a = DrainName({.host = longer + "1", .link = "", .reason = ""});
  const std::string b = DrainName({.host = longer + "2", .link = "", .reason = ""});
  EXPECT_EQ(a.size(), kLongestObjectName);
  EXPECT_NE(a, b);
  EXPECT_NE(DrainName({.host = longer + "/", .link = "", .reason = ""}),
            DrainName({.host = longer + ".", .link = "", .reason = ""}));
}

TEST(Drains, AvoidsTheNameOfAnotherDrain) {
  const DrainSpec one{.host = "", .link = "a/b.c-s", .reason = ""};
  const DrainSpec other{.host = "", .link = "a.b/c-s", .reason = ""};
  ASSERT_EQ(DrainName(one), DrainName(other));
  EXPECT_EQ(*NameOfNewDrain({}, one), "link.a.b.c-s");
  ObjectSet set;
  const auto put = [&](const std::string& name, const DrainSpec& spec) {
    Object object;
    object.key = {ObjectKind::kDrain, name};
    object.spec = spec;
    set.objects[object.key] = object;
  };
  put(*NameOfNewDrain(set, one), one);
  const std::string second = *NameOfNewDrain(set, other);
  EXPECT_THAT(second, testing::MatchesRegex("link\\.a\\.b\\.c-s-[0-9a-f]{8}"));
  EXPECT_NE(second, HashedDrainName(one)) << "of two that are dotted alike";
  put(second, {.host = "h1", .link = "", .reason = ""});
  const auto third = NameOfNewDrain(set, other);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(third.status().message(),
              OneLineMentions("Drain 'link.a.b.c-s'", "link a/b.c-s", "link a.b/c-s"));
}

class DrainsTest : public CoordinatorTest {};

TEST_F(DrainsTest, AreVisibleToPoliciesAndOperators) {
  const auto set = Apply(std::string(kTopology) + Drain("a", "host: h1, reason: memory") +
                         Drain("b", "link: leaf0-spine0"));
  ASSERT_TRUE(set.ok()) << set.status();
  RegisterPair();
  coordinator_.SetObjects(std::make_shared<const ObjectSet>(*set));
  const auto hosts = [&] { return ListHosts(coordinator_.state(), clock_.now); };
  const ClusterView view = ResolveView(coordinator_.View(), coordinator_.objects());
  for (const HostView& host : view.hosts) EXPECT_EQ(host.drained, host.position.host == "h1");
  EXPECT_THAT(view.links_drained, ElementsAre("leaf0-spine0"));
  EXPECT_EQ(hosts().hosts(0).drain(), "");
  EXPECT_EQ(hosts().hosts(1).drain(), "drained");
  EXPECT_EQ(hosts().hosts(1).drain_reason(), "memory");
  Send(kFirst, Announcement(MakeAnnounce(7, {"h0", "h1"})));
  EXPECT_EQ(hosts().hosts(1).drain(), "draining");
  EXPECT_THAT(UsersOfHost(coordinator_.registry(), "h1"), ElementsAre(CommId(7)));
  Send(kFirst, Ending(7));
  EXPECT_EQ(hosts().hosts(1).drain(), "drained");
}

TEST(Drains, RejectsUnknownHostsAndLinks) {
  const auto set = Apply(kTopology);
  Registry registry;
  ASSERT_TRUE(registry.Register(AgentKey(1), Registration(MakeHost("h7")).registration(), 0).ok());
  const auto check = [&](const std::string& host, const std::string& link) {
    return std::string(
        CheckExists({.host = host, .link = link, .reason = ""}, *set, registry).message());
  };
  EXPECT_EQ(check("h0", ""), "");
  EXPECT_EQ(check("h7", ""), "") << "without a Topology";
  EXPECT_THAT(check("h8", ""), HasSubstr("unknown host 'h8'"));
  EXPECT_EQ(check("", "leaf0-spine0"), "");
  EXPECT_THAT(check("", "leaf0-spine9"), HasSubstr("did you mean 'leaf0-spine0'?"));
}

}  // namespace drains_test
}  // namespace mccs
