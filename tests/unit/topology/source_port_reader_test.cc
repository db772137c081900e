#include "topology/source_port_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "topology/linux_multipath_hash.h"
#include "topology/topology_reader.h"

namespace mccs {
namespace {

using testing::HasSubstr;

// Two leaves, two spines, and what is behind `source_ports:`, which begins on line 17.
absl::StatusOr<Topology> Parse(const std::string& source_ports,
                               const std::string& switch_key = "") {
  return ParseTopology(
      absl::StrCat("apiVersion: mccs/v1\n"
                   "kind: Topology\n"
                   "metadata: {name: small}\n"
                   "spec:\n"
                   "  racks:\n"
                   "    - name: r0\n"
                   "  switches:\n"
                   "    - {name: \"leaf[0-1],spine[0-1]\"",
                   switch_key,
                   "}\n"
                   "  hosts:\n"
                   "    - name: h[0-1]\n"
                   "      rack: r0\n"
                   "      gpus: 1\n"
                   "      nics: [{name: \"nic[0-1]\", switch: \"leaf[0-1]\", capacity: 1Gbps}]\n"
                   "  links:\n"
                   "    - {between: [\"leaf[0-1]\", \"spine[0-1]\"], capacity: 1Gbps}\n"
                   "  source_ports:\n",
                   source_ports),
      "t.yaml");
}

std::string ErrorOf(const std::string& source_ports) {
  const auto topology = Parse(source_ports);
  EXPECT_EQ(topology.status().code(), absl::StatusCode::kInvalidArgument) << source_ports;
  return std::string(topology.status().message());
}

std::string ErrorOfRules(const std::string& rules) {
  return ErrorOf("    mapping: rules\n    rules:\n" + rules);
}

TEST(SourcePortReader, RulesNameTheArcsIntoASwitch) {
  const auto topology = Parse(
      "    mapping: rules\n"
      "    rules:\n"
      "      - {ports: 61000-61999, via: spine0, at: leaf0}\n"
      "      - {ports: 62000, via: leaf0-spine1}\n");
  ASSERT_TRUE(topology.ok()) << topology.status();
  const SourcePortMapping& mapping = topology->source_ports();
  EXPECT_EQ(mapping.kind, SourcePortMapping::Kind::kRules);
  ASSERT_EQ(mapping.rules.size(), 2u);
  const auto arc = [&](const char* link) {
    return ForwardArc(topology->FindLink(link).value()).value();
  };
  EXPECT_TRUE(mapping.rules[0].via[arc("leaf0-spine0")]);
  EXPECT_TRUE(mapping.rules[0].via[arc("leaf1-spine0")]);
  EXPECT_FALSE(mapping.rules[0].via[arc("leaf0-spine0") + 1]);
  EXPECT_FALSE(mapping.rules[0].via[arc("leaf0-spine1")]);
  EXPECT_TRUE(mapping.rules[0].at[topology->FindSwitch("leaf0")->value()]);
  EXPECT_FALSE(mapping.rules[0].at[topology->FindSwitch("leaf1")->value()]);
  EXPECT_TRUE(mapping.rules[1].at.empty());
  EXPECT_TRUE(mapping.rules[1].via[arc("leaf0-spine1")]);
  EXPECT_FALSE(mapping.rules[1].via[arc("leaf1-spine1")]);
  EXPECT_EQ(mapping.candidates.first, 61000);
  EXPECT_EQ(mapping.candidates.last, 62000);
}

TEST(SourcePortReader, AHashHasNameSeedAndFields) {
  const auto topology = Parse(
      "    mapping: hash\n"
      "    candidates: 1024-2000\n"
      "    hash: {name: linux-multipath, seed: 7, fields: [source_port, protocol]}\n",
      ", hash_seed: 8");
  ASSERT_TRUE(topology.ok()) << topology.status();
  const SourcePortMapping& mapping = topology->source_ports();
  EXPECT_EQ(mapping.kind, SourcePortMapping::Kind::kHash);
  EXPECT_EQ(mapping.hash.seed, 7u);
  EXPECT_EQ(mapping.hash.fields, kHashSourcePort | kHashProtocol);
  EXPECT_EQ(mapping.candidates.first, 1024);
  EXPECT_EQ(topology->switches()[0].hash_seed, 8u);

  const auto all = Parse("    mapping: hash\n    hash: {name: linux-multipath, seed: 7}\n");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->source_ports().hash.fields, kHashAllFields);
}

TEST(SourcePortReader, WhatIsNoMappingIsRefused) {
  EXPECT_EQ(ErrorOf("    mapping: magic\n"),
            "t.yaml:17:14: 'magic' is no way to map source ports to paths; write rules, hash or "
            "probe");
  EXPECT_THAT(ErrorOf("    candidates: 2001-2002\n"),
              HasSubstr("'spec.source_ports.mapping' is missing"));
  EXPECT_THAT(ErrorOf("    mapping: probe\n    hash: {name: linux-multipath, seed: 1}\n"),
              HasSubstr("t.yaml:18:11: a hash is of use with `mapping: hash` only"));
  EXPECT_THAT(ErrorOf("    mapping: hash\n"), HasSubstr("'spec.source_ports.hash' is missing"));
  EXPECT_THAT(ErrorOf("    mapping: rules\n"), HasSubstr("'spec.source_ports.rules' is missing"));
  for (const char* ports : {"61000-60000", "1023-2000", "2000-65536", "a-b", "5-", "-5", "1-2-3"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("    mapping: probe\n    candidates: \"", ports, "\"\n")),
                HasSubstr("t.yaml:18:17: '" + std::string(ports) + "' is no range of ports"));
  }
}

TEST(SourcePortReader, RulesThatDoNotHoldTogetherAreRefused) {
  EXPECT_EQ(ErrorOfRules("      - {ports: 2001-2005, via: spine7}\n"),
            "t.yaml:19:33: there is no switch or link 'spine7'; did you mean 'spine0'?");
  EXPECT_EQ(ErrorOfRules("      - {ports: 2001-2005, via: spine0, at: x}\n"),
            "t.yaml:19:45: there is no switch 'x'; name it in switches");
  EXPECT_EQ(ErrorOfRules("      - {ports: 2001-2005, via: \"spine[0-1]\"}\n"),
            "t.yaml:19:17: rule 1 leaves open which of leaf0 → spine0 and leaf0 → spine1 the flows "
            "take, which lead equally far; name one of them, or say `at` which switches the rule "
            "holds");
  EXPECT_EQ(
      ErrorOfRules(
          "      - {ports: 2001-2005, via: spine0}\n      - {ports: 2005-2009, via: spine1}\n"),
      "t.yaml:20:17: rule 2 shares ports with rule 1, which sends them to leaf0 → spine0 and "
      "not to leaf0 → spine1; take the common ports away from one of them");
  EXPECT_THAT(ErrorOfRules("      - {ports: 2001-2005, via: leaf0}\n"),
              HasSubstr("rule 1 names no switch or link that is one of several equal next hops"));
}

TEST(SourcePortReader, CandidatesOfWhichNoRuleSpeaksAreRefused) {
  const std::string rules = "    rules:\n      - {ports: 2001-2005, via: spine0}\n";
  EXPECT_EQ(
      ErrorOf("    mapping: rules\n    candidates: 2006-2010\n" + rules),
      "t.yaml:18:17: no rule holds any of the ports 2006-2010, so that nobody knows their paths");
  EXPECT_TRUE(Parse("    mapping: rules\n    candidates: 2005-2010\n" + rules).ok());
}

TEST(SourcePortReader, AHashThatNobodyCanComputeIsRefused) {
  const std::string hash = "    mapping: hash\n    hash: {name: ";
  EXPECT_THAT(ErrorOf(hash + "crc, seed: 1}\n"),
              HasSubstr("t.yaml:18:18: the hash 'crc' is not known; known is linux-multipath"));
  EXPECT_THAT(ErrorOf(hash + "linux-multipath, seed: 0}\n"),
              HasSubstr("t.yaml:18:41: with seed 0 a switch takes a random one"));
  EXPECT_THAT(ErrorOf(hash + "linux-multipath, seed: 1, fields: [port]}\n"),
              HasSubstr("t.yaml:18:53: 'port' is no field of the hash"));
  EXPECT_THAT(ErrorOf(hash + "linux-multipath, seed: 1, fields: [protocol]}\n"),
              HasSubstr("t.yaml:18:52: without source_port in the hash"));
  EXPECT_THAT(std::string(Parse("    mapping: probe\n", ", hash_seed: 8").status().message()),
              HasSubstr("t.yaml:8:49: a seed is of use with `mapping: hash`"));
}

}  // namespace
}  // namespace mccs
