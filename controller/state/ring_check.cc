#include "controller/state/ring_check.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::Status CheckRings(const google::protobuf::RepeatedPtrField<std::string>& hosts,
                        const strategy::Strategy& strategy) {
  const auto refuse = [](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat(why...));
  };
  if (hosts.empty()) return refuse("no hosts");
  std::set<std::string> names;
  for (const std::string& host : hosts) {
    if (!names.insert(host).second) return refuse("host ", host, " is a duplicate");
  }
  if (strategy.channels_size() == 0) return refuse("the strategy has no channel");
  for (const strategy::ChannelStrategy& channel : strategy.channels()) {
    std::vector<bool> seen(static_cast<size_t>(hosts.size()));
    for (const int host : channel.ring()) {
      if (host < 0 || host >= hosts.size()) {
        return refuse("a ring contains host ", host, " of ", hosts.size());
      }
      if (seen[static_cast<size_t>(host)]) return refuse("a ring contains host ", host, " twice");
      seen[static_cast<size_t>(host)] = true;
    }
    if (channel.ring_size() != hosts.size()) {
      return refuse("a ring contains ", channel.ring_size(), " of ", hosts.size(), " hosts");
    }
  }
  return absl::OkStatus();
}

}  // namespace mccs
