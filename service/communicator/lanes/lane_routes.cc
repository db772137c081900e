#include "service/communicator/lanes/lane_routes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace mccs {
namespace {

bool SameNics(const DialRoute& a, const DialRoute& b) {
  return a.connect.source_host == b.connect.source_host && a.to.host == b.to.host;
}

// Of `address`; 0 if it is not listed.
size_t PositionOf(const std::vector<std::string>& addresses, const std::string& address) {
  const auto found = std::ranges::find(addresses, address);
  return found == addresses.end() ? 0 : static_cast<size_t>(found - addresses.begin());
}

}  // namespace

DialRoute LaneRoutes::Attempt(int attempt, const DialRoute& current, const DialRoute& chosen,
                              const HasLink& has_link) const {
  const bool current_has_link = has_link(current.connect.source_host);
  if (attempt % 2 == 0 && current_has_link) return current;
  const std::vector<DialRoute> others = Alternatives(current, chosen, has_link);
  if (others.empty()) return current;
  return others[static_cast<size_t>(current_has_link ? attempt / 2 : attempt) % others.size()];
}

std::vector<DialRoute> LaneRoutes::Alternatives(const DialRoute& current, const DialRoute& chosen,
                                                const HasLink& has_link) const {
  std::vector<DialRoute> others;
  if (!SameNics(chosen, current) && has_link(chosen.connect.source_host)) others.push_back(chosen);
  if (!has_others()) return others;
  const auto first_nic = static_cast<std::ptrdiff_t>(others.size());
  const size_t own_position = PositionOf(*own_, current.connect.source_host);
  const size_t peer_position = PositionOf(*peer_, current.to.host);
  for (size_t i = 1; i <= own_->size(); ++i) {
    const std::string& source = (*own_)[(own_position + i) % own_->size()];
    if (!has_link(source)) continue;  // a system call, so once for each NIC
    for (size_t j = 1; j <= peer_->size(); ++j) {
      DialRoute route = current;
      route.connect = {.source_host = source, .source_port = 0};
      route.to.host = (*peer_)[(peer_position + j) % peer_->size()];
      if (!SameNics(route, current) && !SameNics(route, chosen)) others.push_back(route);
    }
  }
  const auto rank = [&](const DialRoute& route) {
    const bool keeps_one = route.connect.source_host == current.connect.source_host ||
                           route.to.host == current.to.host;
    const bool crosses =
        PositionOf(*own_, route.connect.source_host) != PositionOf(*peer_, route.to.host);
    return std::pair(keeps_one, crosses);
  };
  std::stable_sort(others.begin() + first_nic, others.end(),
                   [&](const DialRoute& a, const DialRoute& b) { return rank(a) < rank(b); });
  return others;
}

}  // namespace mccs
