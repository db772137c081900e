// The routes of one lane: the one that its strategy has chosen, and others to use while no
// connection can be opened there.
//
// A host with several NICs lists their addresses in the roster. When a NIC, its port or its cable
// fails, a lane may use any pair of an own NIC and one of the peer's:
//
//   attempt   0         1              2         3              …
//   route     current   alternative    current   alternative    …
//
// First among the alternatives is the chosen route, if the lane is on another one. Then come pairs
// of which both NICs differ from the current ones (it is not known which of the two has failed),
// and of these the pairs with the same position in both lists (in a network of separate rails only
// they reach each other). Lanes of different NICs begin with different alternatives.
//
// THREAD: any; const.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_LANE_ROUTES_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_LANE_ROUTES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/communicator/links/dial.h"

namespace mccs {

class LaneRoutes {
 public:
  // Addresses of a host's NICs, numeric.
  using Addresses = std::shared_ptr<const std::vector<std::string>>;
  // Whether packets can leave from an own address now.
  using HasLink = std::function<bool(const std::string& address)>;

  // `own` and `peer` may be null: no others.
  LaneRoutes(Addresses own, Addresses peer) : own_(std::move(own)), peer_(std::move(peer)) {}

  // There is more than one pair of NICs.
  bool has_others() const {
    return own_ != nullptr && peer_ != nullptr && own_->size() * peer_->size() > 1;
  }
  // The route of the `attempt`-th dial, from 0, for a lane that was on `current`. One whose source
  // has no link is only returned if there is no other.
  DialRoute Attempt(int attempt, const DialRoute& current, const DialRoute& chosen,
                    const HasLink& has_link) const;

 private:
  // Those whose source has a link.
  std::vector<DialRoute> Alternatives(const DialRoute& current, const DialRoute& chosen,
                                      const HasLink& has_link) const;

  Addresses own_;
  Addresses peer_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_LANE_ROUTES_H_
