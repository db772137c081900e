// The position of a host: pod, rack, name; natural order of names ("h2" before "h10"); and locality
// order.
#ifndef MCCS_TOPOLOGY_POSITION_H_
#define MCCS_TOPOLOGY_POSITION_H_

#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace mccs {

// Natural order: runs of digits compare as numbers of any length, everything else by bytes. A total
// order: names that differ only in leading zeros ("h1", "h01") compare by bytes.
std::strong_ordering CompareNatural(std::string_view a, std::string_view b);

// The empty string is an unknown pod or rack, and counts as one of its own. Hosts without known
// positions therefore share one rack.
struct Position {
  std::string pod;
  std::string rack;
  std::string host;

  friend bool operator==(const Position&, const Position&) = default;
  // By pod, then rack, then host, each in natural order.
  friend std::strong_ordering operator<=>(const Position& a, const Position& b);
};

// Locality order: an order of hosts around a ring that crosses between racks as rarely as possible
// (source: "MCCS: managed collective communication as a service", SIGCOMM 2024, policy 1).

// The indices of `hosts`, ordered by (pod, rack, host); equal positions keep their order.
// ENSURES: a permutation of 0 … hosts.size() − 1. In a ring, the hosts of each pod and of each rack
// are adjacent, so each is entered and left once. Depends only on the positions (except ties): all
// hosts of a communicator compute the same ring.
std::vector<HostIndex> LocalityOrder(std::span<const Position> hosts);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_POSITION_H_
