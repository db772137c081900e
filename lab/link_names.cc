#include "lab/link_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mccs::lab {
namespace {

bool IsEndA(const Topology& topology, const Topology::Link& link, const std::string& name) {
  if (!link.nic) return topology.switch_of(link.a).name == name;
  return topology.NicName(*link.nic) == name ||
         topology.host(topology.nic(*link.nic).host).name == name;
}

bool IsEndB(const Topology& topology, const Topology::Link& link, const std::string& name) {
  return topology.switch_of(link.b).name == name;
}

bool Joins(const Topology& topology, const Topology::Link& link, const std::string& one,
           const std::string& other) {
  return (IsEndA(topology, link, one) && IsEndB(topology, link, other)) ||
         (IsEndA(topology, link, other) && IsEndB(topology, link, one));
}

}  // namespace

absl::StatusOr<LinkId> FindLinkByWords(const Topology& topology,
                                       const std::vector<std::string>& words) {
  if (words.size() == 1) {
    if (const std::optional<LinkId> link = topology.FindLink(words[0])) return *link;
    return absl::NotFoundError(
        absl::StrCat("link '", words[0], "' does not exist; see 'mccs-lab links'"));
  }
  std::vector<LinkId> meant;
  for (size_t i = 0; i < topology.links().size(); ++i) {
    if (Joins(topology, topology.links()[i], words[0], words[1]))
      meant.push_back(LinkId(static_cast<int32_t>(i)));
  }
  if (meant.size() == 1) return meant.front();
  if (meant.empty()) {
    return absl::NotFoundError(absl::StrCat("no link between '", words[0], "' and '", words[1],
                                            "'; see 'mccs-lab links'"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "ambiguous link: ", meant.size(), " links between '", words[0], "' and '", words[1],
      "'; name one of ", absl::StrJoin(meant, ", ", [&](std::string* out, LinkId link) {
        out->append(topology.link(link).name);
      })));
}

}  // namespace mccs::lab
