// The position of a host: pod, rack, name. Natural order of names: "h2" before "h10".
#ifndef MCCS_TOPOLOGY_POSITION_H_
#define MCCS_TOPOLOGY_POSITION_H_

#include <compare>
#include <string>
#include <string_view>

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

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_POSITION_H_
