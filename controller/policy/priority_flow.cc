#include "controller/policy/priority_flow.h"

#include <algorithm>

namespace mccs {

FlowOptions ApplyReservations(FlowOptions options, const std::string& tenant,
                              std::span<const Reservation> reservations) {
  for (const Reservation& reservation : reservations) {
    const auto& favoured = reservation.favoured;
    if (std::find(favoured.begin(), favoured.end(), tenant) != favoured.end()) {
      options.last = true;
    } else {
      options.avoid_links.insert(options.avoid_links.end(), reservation.links.begin(),
                                 reservation.links.end());
    }
  }
  std::sort(options.avoid_links.begin(), options.avoid_links.end());
  return options;
}

}  // namespace mccs
