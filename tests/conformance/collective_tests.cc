// Every collective with every type and operator: in and out of place, with odd sizes, at
// element-aligned offsets, with several roots.
#include <algorithm>
#include <array>
#include <string>

#include "conformance/checked_call.h"
#include "conformance/test_table.h"

namespace conformance {
namespace collective_tests {

// Odd sizes around the sizes at which libraries split work; not divisible by the number of ranks.
constexpr size_t kCounts[] = {1, 2, 7, 129, 1021, 4099};
constexpr size_t kLargestCount = 4099;
constexpr size_t kOffsets[] = {0, 1, 3};
constexpr std::array kOperators = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

std::vector<int> Roots(const Collective& collective, int size) {
  if (!collective.rooted) return {0};
  std::vector<int> roots = {0, size / 2, size - 1};
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  return roots;
}

void Sweep(Test& t, const Collective& collective, const ElementType& type) {
  const Group world{t.World(), t.rank(), t.size(), t.NewStream()};
  CallBuffers buffers(&t, kLargestCount * t.size() * type.bytes);
  const size_t operators = collective.reduces ? kOperators.size() : 1;
  uint64_t salt = 0;
  for (size_t count : kCounts) {
    for (size_t op = 0; op < operators; ++op) {
      for (int root : Roots(collective, t.size())) {
        const Call call{collective.kind, &type, kOperators[op], count, root};
        for (bool in_place : {false, true}) {
          if (in_place && !collective.has_in_place) continue;
          const size_t offset = kOffsets[salt % std::size(kOffsets)];
          if (!buffers.Check(call, {in_place, offset}, world, ++salt)) return;
        }
      }
    }
  }
}

}  // namespace collective_tests

void AddCollectiveTests(TestTable* table) {
  for (const Collective& collective : Collectives()) {
    for (const ElementType& type : ElementTypes()) {
      table->push_back({std::string(collective.name), std::string(type.name),
                        [&](Test& t) { collective_tests::Sweep(t, collective, type); }});
    }
  }
}

}  // namespace conformance
