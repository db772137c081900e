#include "lab/link_rates.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/yaml_config.h"

namespace mccs::lab {

absl::StatusOr<std::vector<uint64_t>> ReadLinkRates(const std::string& path,
                                                    const FabricPlan& plan) {
  std::vector<uint64_t> rates;
  for (const Cable& cable : plan.cables) rates.push_back(cable.rate_bps);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return rates;
  std::vector<std::pair<std::string, std::string>> changed;
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(path));
  yaml.Field("bits_per_second", &changed, Need::kRequired);
  MCCS_RETURN_IF_ERROR(yaml.Finish());
  for (const auto& [name, text] : changed) {
    const std::optional<LinkId> link = plan.topology.FindLink(name);
    if (!link || !absl::SimpleAtoi(text, &rates[link->value()]))
      return absl::InternalError(absl::StrCat(path, ": invalid entry '", name, ": ", text,
                                              "': expected a link and its rate"));
  }
  return rates;
}

absl::Status WriteLinkRates(const std::string& path, const FabricPlan& plan,
                            const std::vector<uint64_t>& rates_bps) {
  const std::string partial = path + ".partial";
  {
    std::ofstream file(partial);
    file << "bits_per_second:\n";
    for (size_t i = 0; i < rates_bps.size(); ++i) {
      file << "  '" << plan.cables[i].name << "': '" << rates_bps[i] << "'\n";
    }
    file << std::flush;
    if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", partial));
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

}  // namespace mccs::lab
