// Where a host stands: pod, rack, name. Names are compared as people read them: "h2" before "h10".
#ifndef MCCS_TOPOLOGY_POSITION_H_
#define MCCS_TOPOLOGY_POSITION_H_

#include <compare>
#include <string>
#include <string_view>

namespace mccs {

// Natural order: runs of digits count as numbers of any length, everything else byte by byte. A
// total order: names that differ only in leading zeros ("h1", "h01") are told apart by their bytes.
std::strong_ordering CompareNatural(std::string_view a, std::string_view b);

// A host's place in the fabric. An unknown pod or rack is the empty string, a place of its own; so
// hosts of which nothing is known count as one rack.
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
