#include "topology/source_port_reader.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "topology/linux_multipath_hash.h"
#include "topology/named_parts.h"
#include "topology/source_port_map.h"

namespace mccs {
namespace {

constexpr char kLinuxMultipath[] = "linux-multipath";

struct HashField {
  const char* name;
  uint32_t bit;
};
constexpr HashField kHashFields[] = {{"source_address", kHashSourceAddress},
                                     {"destination_address", kHashDestinationAddress},
                                     {"protocol", kHashProtocol},
                                     {"source_port", kHashSourcePort},
                                     {"destination_port", kHashDestinationPort}};

class SourcePortReader {
 public:
  SourcePortReader(YamlReader section, const Topology& topology)
      : section_(std::move(section)), topology_(topology) {}

  SourcePortMapping Read() {
    std::string kind;
    section_.Field("mapping", &kind, Need::kRequired);
    ReadPortRange(section_, "candidates", Need::kOptional, &mapping_.candidates);
    ReadRules(kind == "rules");
    ReadHash(kind == "hash");
    if (kind == "rules") {
      mapping_.kind = SourcePortMapping::Kind::kRules;
    } else if (kind == "hash") {
      mapping_.kind = SourcePortMapping::Kind::kHash;
    } else if (kind != "probe" && section_.Has("mapping")) {
      section_.Reject("mapping",
                      absl::StrCat("invalid mapping '", kind, "': expected rules, hash or probe"));
    }
    return std::move(mapping_);
  }

 private:
  void ReadRules(bool wanted) {
    std::vector<YamlReader> entries =
        section_.Children("rules", wanted ? Need::kRequired : Need::kOptional);
    if (!wanted && section_.Has("rules"))
      section_.Reject("rules", "rules require `mapping: rules`; remove them or change the mapping");
    if (entries.size() > kMaxPortRules) {
      return section_.Reject("rules", absl::StrCat("too many rules: ", entries.size(),
                                                   "; the limit is ", kMaxPortRules));
    }
    for (YamlReader& entry : entries) ReadRule(entry);
    if (!wanted || section_.Rejected()) return;
    if (entries.empty())
      return section_.Reject("rules", "`mapping: rules` requires at least one rule");
    for (const RuleProblem& problem : FindRuleProblems(topology_, mapping_.rules)) {
      entries[problem.rule].Reject("ports",
                                   absl::StrCat("rule ", problem.rule + 1, " ", problem.why));
    }
    if (!section_.Has("candidates")) return DeriveCandidates();
    const SourcePortRange& tried = mapping_.candidates;
    const bool any =
        std::any_of(mapping_.rules.begin(), mapping_.rules.end(), [&](const auto& rule) {
          return rule.ports.first <= tried.last && rule.ports.last >= tried.first;
        });
    if (!any)
      section_.Reject(
          "candidates",
          absl::StrCat("no rule contains any of the ports ", tried.first, "-", tried.last,
                       ", so their paths are not known; add a rule or change candidates"));
  }

  // Without `candidates`: the range of the rules' ports, since other ports have no known path.
  void DeriveCandidates() {
    mapping_.candidates = mapping_.rules.front().ports;
    for (const PortRule& rule : mapping_.rules) {
      mapping_.candidates.first = std::min(mapping_.candidates.first, rule.ports.first);
      mapping_.candidates.last = std::max(mapping_.candidates.last, rule.ports.last);
    }
  }

  void ReadRule(YamlReader& entry) {
    PortRule rule;
    ReadPortRange(entry, "ports", Need::kRequired, &rule.ports);
    rule.via.resize(topology_.arc_count());
    for (const std::string& name : ReadNames(entry, "via")) NameNextHop(entry, name, rule);
    for (const std::string& name : ReadNames(entry, "at", Need::kOptional)) {
      const std::optional<SwitchId> at = topology_.FindSwitch(name);
      if (!at) {
        entry.Reject("at", UnknownName("switch", name, topology_.switches(), "add it to switches"));
        continue;
      }
      rule.at.resize(topology_.switches().size());
      rule.at[at->value()] = true;
    }
    mapping_.rules.push_back(std::move(rule));
  }

  // Adds all arcs into a switch, or both arcs of a link.
  void NameNextHop(YamlReader& entry, const std::string& name, PortRule& rule) const {
    if (const std::optional<SwitchId> to = topology_.FindSwitch(name)) {
      for (const auto& [arc, neighbour] : topology_.NeighboursOf(*to)) {
        const LinkId link = LinkOf(arc);
        rule.via[(IsForward(arc) ? BackwardArc(link) : ForwardArc(link)).value()] = true;
      }
    } else if (const std::optional<LinkId> link = topology_.FindLink(name)) {
      rule.via[ForwardArc(*link).value()] = rule.via[BackwardArc(*link).value()] = true;
    } else {
      entry.Reject("via", UnknownName("switch or link", name, topology_.switches(),
                                      "use a name from switches or links"));
    }
  }

  void ReadHash(bool wanted) {
    YamlReader hash = section_.Child("hash", wanted ? Need::kRequired : Need::kOptional);
    if (!section_.Has("hash")) return;
    if (!wanted)
      section_.Reject("hash", "a hash requires `mapping: hash`; remove it or change the mapping");
    std::string name;
    hash.Field("name", &name, Need::kRequired);
    if (hash.Has("name") && name != kLinuxMultipath) {
      hash.Reject("name", absl::StrCat("unknown hash '", name, "': expected ", kLinuxMultipath,
                                       "; use `mapping: probe` for other hashes"));
    }
    hash.Field("seed", &mapping_.hash.seed, Need::kRequired);
    if (hash.Has("seed") && mapping_.hash.seed == 0) {
      hash.Reject("seed",
                  "seed 0 makes switches choose a random seed; set another one on the switches "
                  "(net.ipv4.fib_multipath_hash_seed) and here");
    }
    ReadHashFields(hash);
  }

  void ReadHashFields(YamlReader& hash) {
    std::vector<std::string> names;
    hash.Field("fields", &names);
    mapping_.hash.fields = hash.Has("fields") ? 0 : kHashAllFields;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto field = std::find_if(std::begin(kHashFields), std::end(kHashFields),
                                      [&](const HashField& f) { return names[i] == f.name; });
      if (field == std::end(kHashFields)) {
        hash.RejectItem(
            "fields", i,
            absl::StrCat("invalid field '", names[i],
                         "': expected source_address, destination_address, protocol, source_port "
                         "or destination_port"));
      } else {
        mapping_.hash.fields |= field->bit;
      }
    }
    if ((mapping_.hash.fields & kHashSourcePort) == 0) {
      hash.Reject("fields",
                  "source_port is missing, so the path does not depend on the source port; add it "
                  "here and on the switches");
    }
  }

  YamlReader section_;
  const Topology& topology_;
  SourcePortMapping mapping_;
};

}  // namespace

void ReadPortRange(YamlReader& entry, std::string_view key, Need need, SourcePortRange* out) {
  const auto parse = [&](const std::string& text) {
    const size_t dash = std::min(text.find('-'), text.size());
    uint32_t first = 0, last = 0;
    if (!absl::SimpleAtoi(text.substr(0, dash), &first) ||
        !absl::SimpleAtoi(dash == text.size() ? text : text.substr(dash + 1), &last) ||
        first < kLowestSourcePort || last > 65'535 || first > last) {
      return false;
    }
    *out = {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
    return true;
  };
  entry.Parsed(key, "port range", "a range of ports FIRST-LAST such as 61000-61999, in 1024-65535",
               parse, need);
}

std::string FormatPortRange(const SourcePortRange& range) {
  return absl::StrCat(range.first, "-", range.last);
}

SourcePortMapping ReadSourcePorts(YamlReader& spec, const Topology& topology) {
  YamlReader section = spec.Child("source_ports");
  if (!spec.Has("source_ports")) return {};
  return SourcePortReader(std::move(section), topology).Read();
}

}  // namespace mccs
