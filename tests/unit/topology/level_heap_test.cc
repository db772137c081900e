#include "topology/level_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

namespace mccs {
namespace level_heap_test {

TEST(LevelHeap, LowestEntryIsFirstAfterAnyChange) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    constexpr int32_t kNumbers = 20;
    LevelHeap heap(kNumbers);
    std::map<int32_t, double> levels;
    for (int step = 0; step < 300; ++step) {
      const double level = random() % 30;
      const auto lowest = std::min_element(levels.begin(), levels.end(), [](auto& a, auto& b) {
        return std::pair(a.second, a.first) < std::pair(b.second, b.first);
      });
      ASSERT_EQ(heap.empty(), levels.empty());
      if (!levels.empty()) {
        ASSERT_EQ(heap.number(), lowest->first);
        ASSERT_EQ(heap.level(), lowest->second);
      }
      const unsigned what = random() % 4;
      if (levels.empty() || what < 2) {
        const auto number = static_cast<int32_t>(random() % kNumbers);
        heap.Lower(number, level);
        const auto [known, is_new] = levels.try_emplace(number, level);
        known->second = std::min(known->second, level);
      } else if (what == 2) {
        lowest->second += level;
        heap.RaiseLowest(lowest->second);
      } else {
        levels.erase(lowest);
        heap.DropLowest();
      }
    }
  }
}

}  // namespace level_heap_test
}  // namespace mccs
