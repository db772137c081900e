#include "topology/topology_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/unit/golden.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace topology_reader_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

// Some tests below refer to its line numbers.
constexpr char kSmall[] =
    "apiVersion: mccs/v1\n"
    "kind: Topology\n"
    "metadata: {name: small}\n"
    "spec:\n"
    "  pods: [p0]\n"
    "  racks:\n"
    "    - {name: r0, pod: p0}\n"  // 7
    "    - name: r1\n"
    "  switches:\n"
    "    - name: leaf[0-1]\n"  // 10
    "    - name: spine0\n"
    "  hosts:\n"
    "    - name: h[1-2]\n"  // 13
    "      rack: r0\n"
    "      gpus: 4\n"
    "      nics:\n"
    "        - name: nic[0-1]\n"  // 17
    "          switch: leaf0\n"
    "          capacity: 50Gbit/s\n"
    "          address: 10.0.0.[1-4]\n"  // 20
    "    - name: h3\n"
    "      rack: r1\n"
    "      gpus: 1\n"
    "      nics:\n"
    "        - {name: nic0, switch: leaf1, capacity: 200Mbit/s}\n"  // 25
    "  links:\n"
    "    - ends: [\"leaf[0-1]\", spine0]\n"  // 27
    "      capacity: 100Gbit/s\n";

absl::StatusOr<Topology> Parse(const std::string& text) { return ParseTopology(text, "t.yaml"); }

// The error message for the small topology with `from` replaced by `to`.
std::string ErrorOf(const std::string& from, const std::string& to) {
  const std::string text = absl::StrReplaceAll(kSmall, {{from, to}});
  EXPECT_NE(text, kSmall) << from;
  const auto topology = Parse(text);
  EXPECT_EQ(topology.status().code(), absl::StatusCode::kInvalidArgument) << to;
  return std::string(topology.status().message());
}

std::vector<std::string> LinesOf(const std::string& text) { return absl::StrSplit(text, '\n'); }

Topology ReadExample(const std::string& name) {
  auto topology = ParseTopology(ContentOf("examples/topologies/" + name), name);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return topology.ok() ? *std::move(topology) : Topology("");
}

TEST(TopologyReader, ReadsAllFields) {
  const auto topology = Parse(kSmall);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->name(), "small");
  ASSERT_EQ(topology->hosts().size(), 3u);
  ASSERT_EQ(topology->nics().size(), 5u);
  EXPECT_EQ(topology->gpus().size(), 9u);
  EXPECT_EQ(topology->links().size(), 7u);
  EXPECT_EQ(topology->PositionOf(HostId(1)), (Position{"p0", "r0", "h2"}));
  EXPECT_EQ(topology->PositionOf(HostId(2)), (Position{"", "r1", "h3"}));
  const NicId nic = topology->FindNic("h2/nic1").value();
  EXPECT_EQ(topology->nic(nic).address, "10.0.0.4");
  EXPECT_EQ(topology->capacity_bps(topology->ArcOut(nic)), 50'000'000'000u);
  EXPECT_EQ(topology->ArcName(topology->ArcOut(nic)), "h2/nic1 → leaf0");
  EXPECT_EQ(topology->ArcName(topology->ArcInto(nic)), "leaf0 → h2/nic1");
  const LinkId link = topology->FindLink("leaf1-spine0").value();
  EXPECT_EQ(topology->capacity_bps(BackwardArc(link)), 100'000'000'000u);
  EXPECT_EQ(topology->ArcName(BackwardArc(link)), "spine0 → leaf1");
  EXPECT_EQ(topology->source_ports().kind, SourcePortMapping::Kind::kProbe);
  EXPECT_FALSE(topology->FindHost("leaf0").has_value());
}

TEST(TopologyReader, SpreadsGpusAndNicsEvenlyByDefault) {
  const auto topology = Parse(kSmall);
  ASSERT_TRUE(topology.ok()) << topology.status();
  const Topology::Host& host = topology->host(HostId(1));
  EXPECT_THAT(topology->gpu(host.gpus[0]).near_nics, ElementsAre(host.nics[0]));
  EXPECT_THAT(topology->gpu(host.gpus[1]).near_nics, ElementsAre(host.nics[0]));
  EXPECT_THAT(topology->gpu(host.gpus[3]).near_nics, ElementsAre(host.nics[1]));
  EXPECT_EQ(topology->gpu(host.gpus[3]).index, 3);

  const auto parsed = Parse(absl::StrReplaceAll(
      kSmall, {{"        - name: nic[0-1]\n          switch: leaf0\n",
                "        - name: nic0\n          near_gpus: [3, 1, 0]\n          switch: leaf0\n"
                "          capacity: 50Gbit/s\n        - name: nic1\n          near_gpus: [2]\n"
                "          switch: leaf0\n"},
               {"          address: 10.0.0.[1-4]\n", ""}}));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->nic(parsed->FindNic("h2/nic0").value()).near_gpus.size(), 3u);
  EXPECT_THAT(parsed->gpu(parsed->host(HostId(1)).gpus[2]).near_nics,
              ElementsAre(parsed->FindNic("h2/nic1").value()));
}

TEST(TopologyReader, NicsOfOneHostMayUseDifferentSwitches) {
  const auto topology =
      Parse(absl::StrReplaceAll(kSmall, {{"switch: leaf0", "switch: \"leaf[0-1]\""}}));
  ASSERT_TRUE(topology.ok()) << topology.status();
  const NicId nic = topology->FindNic("h1/nic1").value();
  EXPECT_EQ(topology->switch_of(topology->nic(nic).attached_to).name, "leaf1");
}

TEST(TopologyReader, SecondLinkNeedsAName) {
  const std::string more = "    - {ends: [spine0, leaf0], capacity: 1Gbit/s";
  EXPECT_THAT(Parse(kSmall + more + "}\n").status().message(),
              OneLineMentions("t.yaml:29:14", "spine0", "leaf0", "line 27", "`name`"));
  const auto topology = Parse(kSmall + more + ", name: second}\n");
  ASSERT_TRUE(topology.ok()) << topology.status();
  const LinkId link = topology->FindLink("second").value();
  EXPECT_EQ(topology->ArcName(ForwardArc(link)), "spine0 → leaf0 (second)");
  EXPECT_EQ(topology->NeighboursOf(topology->FindSwitch("leaf0").value()).size(), 2u);
}

TEST(TopologyReader, ThePapersTestbed) {
  const Topology topology = ReadExample("paper-testbed.yaml");
  EXPECT_EQ(topology.hosts().size(), 4u);
  EXPECT_EQ(topology.gpus().size(), 8u);
  EXPECT_EQ(topology.nics().size(), 8u);
  EXPECT_EQ(topology.switches().size(), 4u);
  EXPECT_EQ(topology.links().size(), 12u);
  EXPECT_EQ(topology.PositionOf(topology.FindHost("h5").value()), (Position{"p0", "left", "h5"}));
  EXPECT_EQ(topology.source_ports().kind, SourcePortMapping::Kind::kRules);
  EXPECT_EQ(topology.source_ports().candidates.first, 61000);
  EXPECT_EQ(topology.source_ports().candidates.last, 64999);
}

TEST(TopologyReader, ThePapersLargeCluster) {
  const Topology topology = ReadExample("paper-cluster.yaml");
  EXPECT_EQ(topology.racks().size(), 24u);
  EXPECT_EQ(topology.hosts().size(), 96u);
  EXPECT_EQ(topology.gpus().size(), 768u);
  EXPECT_EQ(topology.nics().size(), 768u);
  EXPECT_EQ(topology.links().size(), 768u + 24 * 16);
  EXPECT_EQ(topology.PositionOf(topology.FindHost("h95").value()).rack, "r23");
  double in = 0, out = 0;
  for (const auto& link : topology.links())
    (link.nic ? in : out) += static_cast<double>(link.capacity_bps);
  EXPECT_EQ(in, 2 * out);
}

TEST(TopologyReader, TheEnvelopeIsChecked) {
  EXPECT_EQ(ErrorOf("mccs/v1", "mccs/v2"),
            "t.yaml:1:13: unsupported version 'mccs/v2': expected mccs/v1");
  EXPECT_EQ(ErrorOf("kind: Topology", "kind: Policy"),
            "t.yaml:2:7: unsupported kind 'Policy': expected Topology");
  EXPECT_THAT(ErrorOf("name: small", "name: a/b"),
              OneLineMentions("t.yaml:3:18", "'a/b'", "name", "64"));
  EXPECT_EQ(Parse("apiVersion: mccs/v1\nkind: Topology\nmetadata: {name: x}\n").status().message(),
            "t.yaml:1:1: the key 'spec' is missing");
}

TEST(TopologyReader, NamesTheNewKeyOfEnds) {
  EXPECT_THAT(ErrorOf("ends: [", "between: ["), HasSubstr("was renamed; use 'ends'"));
}

TEST(TopologyReader, RejectsUnknownEnds) {
  EXPECT_EQ(ErrorOf("switch: leaf0", "switch: laef0"),
            "t.yaml:18:19: unknown switch 'laef0'; did you mean 'leaf0'?");
  EXPECT_EQ(ErrorOf("switch: leaf0", "switch: x"),
            "t.yaml:18:19: unknown switch 'x'; add it to switches");
  EXPECT_THAT(ErrorOf(", spine0]", ", spine7]"),
              OneLineMentions("t.yaml:27:27", "'spine7'", "'spine0'"));
  EXPECT_EQ(ErrorOf("rack: r1", "rack: rack"),
            "t.yaml:22:13: unknown rack 'rack'; add it to racks");
  EXPECT_EQ(ErrorOf("pod: p0", "pod: pod"), "t.yaml:7:23: unknown pod 'pod'; add it to pods");
}

TEST(TopologyReader, ALinkOfANicBelongsToTheNic) {
  EXPECT_THAT(ErrorOf(", spine0]", ", h1]"), Mentions("t.yaml:27:27", "'h1'", "host"));
  EXPECT_THAT(ErrorOf(", spine0]", ", h1/nic0]"),
              HasSubstr("t.yaml:27:27: a NIC's link is defined by the NIC"));
}

TEST(TopologyReader, RejectsDuplicateNames) {
  EXPECT_THAT(ErrorOf("- name: h3", "- name: h2"),
              OneLineMentions("t.yaml:21:13", "'h2'", "duplicate", "line 13"));
  EXPECT_THAT(ErrorOf("- name: h3", "- name: spine0"), HasSubstr("first on line 11"));
  EXPECT_THAT(ErrorOf("name: spine0", "name: leaf1"),
              HasSubstr("t.yaml:11:13: 'leaf1' is a duplicate"));
  EXPECT_THAT(ErrorOf("name: r1", "name: r0,r1"),
              OneLineMentions("t.yaml:8:13", "'r0'", "duplicate", "line 7"));
  EXPECT_EQ(ErrorOf("pods: [p0]", "pods: [p0, p0]"),
            "t.yaml:5:14: pod 'p0' is a duplicate; remove it");
  EXPECT_THAT(ErrorOf("nic[0-1]", "nic[0,0]"), HasSubstr("t.yaml:17:17: 'nic0' is a duplicate"));
  EXPECT_THAT(ErrorOf("10.0.0.[1-4]", "10.0.0.[1-3,1]"),
              HasSubstr("t.yaml:20:20: '10.0.0.1' is a duplicate"));
  EXPECT_THAT(ErrorOf("capacity: 100Gbit/s", "capacity: 100Gbit/s\n      name: \"leaf0,x\""),
              HasSubstr("t.yaml:29:13: 'leaf0' is a duplicate: first on line 10"));
}

// A NIC's link is called HOST/NIC-SWITCH, and all three parts may contain '-'.
TEST(TopologyReader, RejectsDuplicateNamesOfNicLinks) {
  const std::string nic = "- {name: nic0, switch: leaf1, capacity: 200Mbit/s}";
  const auto rejection = [&](const std::string& switches, const std::string& nics) {
    return std::string(
        Parse(absl::StrReplaceAll(kSmall, {{"- name: spine0", switches}, {nic, nics}}))
            .status()
            .message());
  };
  EXPECT_THAT(rejection("- name: spine0,p1-leaf1",
                        "- {name: nic0-p1, switch: leaf1, capacity: 1Gbit/s}\n"
                        "        - {name: nic0, switch: p1-leaf1, capacity: 1Gbit/s}"),
              OneLineMentions("t.yaml:26:18", "'nic0-p1-leaf1'", "duplicate", "line 25"));
  EXPECT_THAT(rejection("- name: spine0,b-c,c",
                        "- {name: \"a,a-b\", switch: \"b-c,c\", capacity: 1Gbit/s}"),
              HasSubstr("t.yaml:25:18: 'a-b-c' is a duplicate: first on line 25"));
}

TEST(TopologyReader, NicLinkNamesAreUniquePerHostOnly) {
  const auto topology = Parse(absl::StrReplaceAll(
      kSmall, {{"- name: h3", "- name: h3,h3-nic0"},
               {"- ends: [\"leaf[0-1]\", spine0]",
                "- ends: [\"leaf[0-1]\", spine0]\n      name: nic0-leaf1,h3-nic0-leaf1"}}));
  ASSERT_TRUE(topology.ok()) << topology.status();
  for (const char* link : {"h3/nic0-leaf1", "h3-nic0/nic0-leaf1", "nic0-leaf1", "h3-nic0-leaf1"}) {
    EXPECT_TRUE(topology->FindLink(link).has_value()) << link;
  }
}

TEST(TopologyReader, RatesAreAboveZeroAndHaveAUnit) {
  for (const char* rate : {"0", "0Gbit/s", "-5Gbit/s", "50", "fast", "50GB", "1.5bit/s"}) {
    EXPECT_THAT(ErrorOf("100Gbit/s", rate),
                OneLineMentions("t.yaml:28:17", "'capacity'", absl::StrCat("'", rate, "'")));
    EXPECT_THAT(ErrorOf("200Mbit/s", rate), HasSubstr("t.yaml:25:"));
  }
}

TEST(TopologyReader, RejectsUnreachableHosts) {
  EXPECT_THAT(ErrorOf("\"leaf[0-1]\", spine0", "leaf0, spine0"),
              OneLineMentions("t.yaml:21:13", "host h3", "host h1"));
}

TEST(TopologyReader, RejectsHostsWithoutNicsAndSwitchesWithoutLinks) {
  EXPECT_THAT(ErrorOf("- {name: nic0, switch: leaf1, capacity: 200Mbit/s}", "[]"),
              OneLineMentions("t.yaml:25:9", "'nics'", "empty"));
  EXPECT_THAT(ErrorOf("switch: leaf1, ", ""),
              OneLineMentions("t.yaml:25:11", "missing", "'spec.hosts[1].nics[0].switch'"));
  EXPECT_THAT(ErrorOf("name: spine0", "name: spine[0-1]"),
              OneLineMentions("t.yaml:11:13", "switch spine1", "no links"));
}

TEST(TopologyReader, RejectsUnknownFields) {
  EXPECT_THAT(LinesOf(ErrorOf("gpus: 4", "gpu: 4")),
              ElementsAre(Mentions("t.yaml:13:7", "missing", "'spec.hosts[0].gpus'"),
                          Mentions("t.yaml:15:7", "unknown key 'gpu'", "'gpus'")));
}

TEST(TopologyReader, RejectsValuesOutOfRange) {
  EXPECT_THAT(ErrorOf("gpus: 4", "gpus: -1"),
              HasSubstr("t.yaml:15:13: 'gpus' is -1: expected 0 to 64"));
  EXPECT_THAT(ErrorOf("10.0.0.[1-4]", "10.0.0.[1-3]"),
              OneLineMentions("t.yaml:20:20", "3 addresses", "4 NICs"));
  EXPECT_THAT(ErrorOf("10.0.0.[1-4]", "10.0.0.[254-257]"),
              HasSubstr("t.yaml:20:20: invalid address '10.0.0.256'"));
  EXPECT_THAT(ErrorOf("switch: leaf0", "switch: leaf[0-1],spine0"),
              OneLineMentions("t.yaml:18:19", "3 switches", "2 NICs"));
  EXPECT_THAT(
      LinesOf(ErrorOf("capacity: 50Gbit/s", "capacity: 50Gbit/s\n          near_gpus: [0, 4]")),
      ElementsAre(Mentions("t.yaml:17:9", "GPU 1", "near_gpus"),
                  Mentions("t.yaml:17:9", "GPU 2", "near_gpus"),
                  Mentions("t.yaml:17:9", "GPU 3", "near_gpus"),
                  Mentions("t.yaml:20:26", "unknown GPU 4")));
}

TEST(TopologyReader, DefaultMtuIsEthernets) {
  EXPECT_EQ(Parse(kSmall)->mtu_bytes(), 1500);
  const auto with = [](const std::string& mtu) {
    return Parse(absl::StrReplaceAll(kSmall, {{"  pods", "  mtu: " + mtu + "\n  pods"}}));
  };
  for (const int32_t bytes : {576, 9000, 65535}) {
    const auto topology = with(std::to_string(bytes));
    ASSERT_TRUE(topology.ok()) << topology.status();
    EXPECT_EQ(topology->mtu_bytes(), bytes);
  }
  for (const char* bytes : {"575", "65536", "-9000"}) {
    EXPECT_EQ(std::string(with(bytes).status().message()),
              absl::StrCat("t.yaml:5:8: 'mtu' is ", bytes, ": expected 576 to 65535 bytes"));
  }
  EXPECT_THAT(with("jumbo").status().message(), HasSubstr("t.yaml:5:8"));
}

TEST(TopologyReader, AssignsOneAddressPerPatternToEachSwitch) {
  const auto topology = Parse(absl::StrReplaceAll(
      kSmall, {{"name: leaf[0-1]\n",
                "name: leaf[0-1]\n      addresses: [\"10.255.0.[1-2]\", \"10.1.[0-1].254\"]\n"}}));
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_THAT(topology->switch_of(*topology->FindSwitch("leaf0")).addresses,
              ElementsAre("10.255.0.1", "10.1.0.254"));
  EXPECT_THAT(topology->switch_of(*topology->FindSwitch("leaf1")).addresses,
              ElementsAre("10.255.0.2", "10.1.1.254"));
  EXPECT_TRUE(topology->switch_of(*topology->FindSwitch("spine0")).addresses.empty());
  const auto rejection = [](const std::string& addresses) {
    return ErrorOf("name: spine0\n", "name: spine0\n      addresses: " + addresses + "\n");
  };
  EXPECT_THAT(rejection("[\"10.255.0.[1-2]\"]"), HasSubstr("2 addresses for 1 switches"));
  EXPECT_THAT(rejection("[spine0]"), HasSubstr("invalid address 'spine0'"));
  EXPECT_THAT(rejection("[10.0.0.1]"), HasSubstr("'10.0.0.1' is a duplicate"));
}

TEST(TopologyReader, RejectsInvalidLinks) {
  EXPECT_THAT(ErrorOf("\"leaf[0-1]\", spine0", "leaf0, spine0, leaf1"),
              OneLineMentions("t.yaml:27:13", "'ends'", "two"));
  EXPECT_THAT(ErrorOf(", spine0]", ", \"leaf1,spine0\"]"),
              HasSubstr("t.yaml:27:13: 'ends' links leaf1 to itself"));
  EXPECT_THAT(ErrorOf("capacity: 100Gbit/s", "capacity: 100Gbit/s\n      name: up"),
              OneLineMentions("t.yaml:29:13", "1 names", "2 links"));
}

// Removes, duplicates or swaps lines and letters at random.
std::string Spoil(std::string text, std::mt19937& random) {
  for (unsigned n = 1 + random() % 3; n > 0; --n) {
    const size_t at = random() % text.size(), other = random() % text.size();
    const size_t begin = text.rfind('\n', at) + 1;
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    switch (random() % 5) {
      case 0:
        text.erase(begin, end - begin);
        break;
      case 1:
        text.insert(end, text.substr(begin, end - begin));
        break;
      case 2:
        std::swap(text[at], text[other]);
        break;
      case 3:
        text.erase(at, 1);
        break;
      default:
        text[at] = "[]{}-:,0 \n&*'"[random() % 13];
        break;
    }
    if (text.empty()) return text;
  }
  return text;
}

TEST(TopologyReader, ErrorsHaveAPlace) {
  int rejected = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    std::mt19937 random(seed);
    const std::string text = Spoil(kSmall, random);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << text);
    const auto topology = Parse(text);
    if (topology.ok()) continue;
    ++rejected;
    EXPECT_EQ(topology.status().code(), absl::StatusCode::kInvalidArgument);
    for (const auto line : absl::StrSplit(topology.status().message(), '\n')) {
      EXPECT_THAT(std::string(line), MatchesRegex("t.yaml:[0-9]+:[0-9]+: .*|\\([0-9]+ more\\)"));
    }
  }
  EXPECT_GT(rejected, 200);
}

TEST(TopologyReader, RejectsTooLargeTopologiesEarly) {
  EXPECT_THAT(ErrorOf("leaf[0-1]", "leaf[0-65535]"), HasSubstr("more than 4096 switches"));
  EXPECT_THAT(ErrorOf("h[1-2]", "h[1-65000]"), HasSubstr("more than 4096 hosts"));
  EXPECT_THAT(ErrorOf("nic[0-1]", "nic[0-64]"),
              HasSubstr("'nics' has 65 NICs: expected at most 64"));
}

}  // namespace topology_reader_test
}  // namespace mccs
