#include "conformance/test_table.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

namespace conformance {
namespace {

// The groups in the order in which they run: simple properties first. All collectives run last.
constexpr std::string_view kGroups[] = {
    "symbols",        "bad_arguments", "groups",      "streams",    "life_cycle",  "non_blocking",
    "split",          "shrink",        "config",      "unique_id",  "zero_counts", "operators",
    "point_to_point", "newer",         "one_sided",   "graphs",     "memory",      "registration",
    "virtual_memory", "fork",          "one_process", "multi_rank", "beyond_nccl", "large"};

// Before main() the order of registrations is the linker's.
TestTable& Registered() {
  static TestTable tests;
  return tests;
}

size_t PlaceOf(const TestCase& test) {
  const auto place = std::find(std::begin(kGroups), std::end(kGroups), test.group);
  if (place == std::end(kGroups)) {
    std::fprintf(stderr, "conformance: test_table.cc lacks the group %s\n", test.group.c_str());
    std::abort();
  }
  return static_cast<size_t>(place - std::begin(kGroups));
}

}  // namespace

TestRegistration::TestRegistration(TestCase test) { Registered().push_back(std::move(test)); }

TestTable ChosenTests(const Options& options) {
  TestTable all;
  if (options.random) {
    AddRandomTests(options.seed, options.seeds, &all);
    return all;
  }
  all = Registered();
  AddOperatorTests(&all);
  std::stable_sort(all.begin(), all.end(),
                   [](const TestCase& a, const TestCase& b) { return PlaceOf(a) < PlaceOf(b); });
  AddCollectiveTests(&all);

  TestTable chosen;
  for (TestCase& test : all) {
    if (IsChosen(options, test.FullName())) chosen.push_back(std::move(test));
  }
  return chosen;
}

}  // namespace conformance
