#include "topology/position.h"

#include <algorithm>
#include <cstddef>

namespace mccs {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes the run of digits at the start of `text` and returns it without leading zeros.
std::string_view TakeNumber(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  while (!number.empty() && number.front() == '0') number.remove_prefix(1);
  return number;
}

// Without leading zeros, the longer number is larger.
std::strong_ordering CompareNumbers(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

}  // namespace

std::strong_ordering CompareNatural(std::string_view a, std::string_view b) {
  std::string_view rest_a = a, rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (IsDigit(rest_a.front()) && IsDigit(rest_b.front())) {
      const auto order = CompareNumbers(TakeNumber(rest_a), TakeNumber(rest_b));
      if (order != 0) return order;
      continue;
    }
    const auto order =
        static_cast<unsigned char>(rest_a.front()) <=> static_cast<unsigned char>(rest_b.front());
    if (order != 0) return order;
    rest_a.remove_prefix(1);
    rest_b.remove_prefix(1);
  }
  if (rest_a.empty() != rest_b.empty()) {
    return rest_a.empty() ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  return a.compare(b) <=> 0;
}

std::strong_ordering operator<=>(const Position& a, const Position& b) {
  if (const auto pod = CompareNatural(a.pod, b.pod); pod != 0) return pod;
  if (const auto rack = CompareNatural(a.rack, b.rack); rack != 0) return rack;
  return CompareNatural(a.host, b.host);
}

std::vector<HostIndex> LocalityOrder(std::span<const Position> hosts) {
  std::vector<HostIndex> order;
  order.reserve(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) order.push_back(HostIndex(static_cast<int32_t>(i)));
  std::stable_sort(order.begin(), order.end(),
                   [&](HostIndex a, HostIndex b) { return hosts[a.value()] < hosts[b.value()]; });
  return order;
}

}  // namespace mccs
