#include "topology/source_port_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/mentions.h"
#include "topology/linux_multipath_hash.h"
#include "topology/topology_reader.h"

namespace mccs {
namespace source_port_reader_test {

using testing::HasSubstr;

// Two leaves, two spines, and `source_ports`, whose content starts on line 17.
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
                   "      nics: [{name: \"nic[0-1]\", switch: \"leaf[0-1]\", capacity: 1Gbit/s}]\n"
                   "  links:\n"
                   "    - {ends: [\"leaf[0-1]\", \"spine[0-1]\"], capacity: 1Gbit/s}\n"
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

TEST(SourcePortReader, RejectsInvalidMappings) {
  EXPECT_THAT(ErrorOf("    mapping: magic\n"),
              OneLineMentions("t.yaml:17:14", "'magic'", "rules, hash or probe"));
  EXPECT_THAT(ErrorOf("    candidates: 2001-2002\n"),
              HasSubstr("'spec.source_ports.mapping' is missing"));
  EXPECT_THAT(ErrorOf("    mapping: probe\n    hash: {name: linux-multipath, seed: 1}\n"),
              HasSubstr("t.yaml:18:11: a hash requires `mapping: hash`"));
  EXPECT_THAT(ErrorOf("    mapping: hash\n"), HasSubstr("'spec.source_ports.hash' is missing"));
  EXPECT_THAT(ErrorOf("    mapping: rules\n"), HasSubstr("'spec.source_ports.rules' is missing"));
  for (const char* ports : {"61000-60000", "1023-2000", "2000-65536", "a-b", "5-", "-5", "1-2-3"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("    mapping: probe\n    candidates: \"", ports, "\"\n")),
                OneLineMentions("t.yaml:18:17", "'candidates'", "FIRST-LAST", ports));
  }
}

TEST(SourcePortReader, RejectsInconsistentRules) {
  EXPECT_THAT(ErrorOfRules("      - {ports: 2001-2005, via: spine7}\n"),
              OneLineMentions("t.yaml:19:33", "'spine7'", "'spine0'"));
  EXPECT_EQ(ErrorOfRules("      - {ports: 2001-2005, via: spine0, at: x}\n"),
            "t.yaml:19:45: unknown switch 'x'; add it to switches");
  EXPECT_THAT(
      ErrorOfRules("      - {ports: 2001-2005, via: \"spine[0-1]\"}\n"),
      OneLineMentions("t.yaml:19:17", "rule 1", "leaf0 → spine0", "leaf0 → spine1", "`at`"));
  EXPECT_THAT(
      ErrorOfRules(
          "      - {ports: 2001-2005, via: spine0}\n      - {ports: 2005-2009, via: spine1}\n"),
      OneLineMentions("t.yaml:20:17", "rule 2", "rule 1", "leaf0 → spine0", "leaf0 → spine1"));
  EXPECT_THAT(ErrorOfRules("      - {ports: 2001-2005, via: leaf0}\n"),
              HasSubstr("rule 1 has no effect"));
}

TEST(SourcePortReader, RejectsCandidatesWithoutARule) {
  const std::string rules = "    rules:\n      - {ports: 2001-2005, via: spine0}\n";
  EXPECT_THAT(ErrorOf("    mapping: rules\n    candidates: 2006-2010\n" + rules),
              OneLineMentions("t.yaml:18:17", "no rule", "2006-2010"));
  EXPECT_TRUE(Parse("    mapping: rules\n    candidates: 2005-2010\n" + rules).ok());
}

TEST(SourcePortReader, RejectsAnUnknownHash) {
  const std::string hash = "    mapping: hash\n    hash: {name: ";
  EXPECT_THAT(ErrorOf(hash + "crc, seed: 1}\n"),
              HasSubstr("t.yaml:18:18: unknown hash 'crc': expected linux-multipath"));
  EXPECT_THAT(ErrorOf(hash + "linux-multipath, seed: 0}\n"),
              HasSubstr("t.yaml:18:41: seed 0 makes switches choose a random seed"));
  EXPECT_THAT(ErrorOf(hash + "linux-multipath, seed: 1, fields: [port]}\n"),
              HasSubstr("t.yaml:18:53: invalid field 'port'"));
  EXPECT_THAT(ErrorOf(hash + "linux-multipath, seed: 1, fields: [protocol]}\n"),
              HasSubstr("t.yaml:18:52: source_port is missing"));
  EXPECT_THAT(Parse("    mapping: probe\n", ", hash_seed: 8").status().message(),
              HasSubstr("t.yaml:8:49: hash_seed requires `mapping: hash`"));
}

}  // namespace source_port_reader_test
}  // namespace mccs
