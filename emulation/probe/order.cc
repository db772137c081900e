// The order of the checks: first those on which the design of the data path depends, then
// the others by name.

#include <algorithm>
#include <iterator>
#include <string_view>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr const char* kFirst[] = {
    // Kernels, counters and data.
    "kernel_awaits_word",
    "kernel_leaves_its_queue",
    // The present fences and exports.
    "fences_across_processes",
    "fences_with_processor",
    "export_base_and_offset",
    "vmm_descriptors",
    "exit_with_waiting_stream",
    "forty_waits_beside_work",
    "readies_before_waits",
};

size_t RankOf(const Check& check) {
  const auto* found = std::find(std::begin(kFirst), std::end(kFirst), std::string_view(check.name));
  return static_cast<size_t>(found - std::begin(kFirst));
}

}  // namespace

std::vector<std::string> SortByImportance(std::vector<Check>* checks) {
  std::sort(checks->begin(), checks->end(), [](const Check& a, const Check& b) {
    const size_t rank_a = RankOf(a);
    const size_t rank_b = RankOf(b);
    return rank_a != rank_b ? rank_a < rank_b : std::string_view(a.name) < b.name;
  });
  std::vector<std::string> unknown;
  for (const std::string_view name : kFirst) {
    const bool known = std::any_of(checks->begin(), checks->end(),
                                   [&](const Check& check) { return name == check.name; });
    if (!known) unknown.emplace_back(name);
  }
  return unknown;
}

}  // namespace mccs::probe
