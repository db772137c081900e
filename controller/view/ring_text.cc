#include "controller/view/ring_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mccs {

std::string HostName(const CommunicatorView& communicator, int position) {
  const bool known = position >= 0 && position < static_cast<int>(communicator.hosts.size());
  return known ? communicator.hosts[position] : absl::StrCat("host ", position);
}

std::string RingText(const CommunicatorView& communicator,
                     const strategy::ChannelStrategy& channel) {
  std::vector<std::string> hosts;
  for (const int host : channel.ring()) hosts.push_back(HostName(communicator, host));
  if (hosts.size() > 1) hosts.push_back(hosts[0]);
  return absl::StrJoin(hosts, " → ");
}

}  // namespace mccs
