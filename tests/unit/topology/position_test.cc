#include "topology/position.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace mccs {
namespace position_test {

TEST(NaturalOrder, NumbersCompareAsNumbers) {
  EXPECT_TRUE(CompareNatural("h2", "h10") < 0);
  EXPECT_TRUE(CompareNatural("h10", "h9") > 0);
  EXPECT_TRUE(CompareNatural("rack1-h2", "rack1-h10") < 0);
  EXPECT_TRUE(CompareNatural("a", "b") < 0);
  EXPECT_TRUE(CompareNatural("h", "h0") < 0);
  EXPECT_TRUE(CompareNatural("", "a") < 0);
  EXPECT_TRUE(CompareNatural("h7", "h7") == 0);
}

TEST(NaturalOrder, NumbersLongerThanAnyIntegerAreOrdered) {
  EXPECT_TRUE(CompareNatural("h99999999999999999999999", "h100000000000000000000000") < 0);
}

TEST(NaturalOrder, LeadingZerosKeepNamesDistinct) {
  EXPECT_TRUE(CompareNatural("h01", "h1") != 0);
  EXPECT_TRUE(CompareNatural("h01", "h2") < 0);
  EXPECT_TRUE(CompareNatural("h002", "h1") > 0);
}

TEST(NaturalOrder, IsATotalOrder) {
  constexpr unsigned kSeed = 20241;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) {
    std::string name;
    for (unsigned n = random() % 5; n > 0; --n) name += "a01\xff-"[random() % 5];
    names.push_back(name);
  }
  for (const auto& a : names) {
    for (const auto& b : names) {
      EXPECT_EQ(CompareNatural(a, b) == 0, a == b) << a << " " << b;
      EXPECT_EQ(CompareNatural(a, b) < 0, CompareNatural(b, a) > 0) << a << " " << b;
      for (const auto& c : names) {
        if (CompareNatural(a, b) < 0 && CompareNatural(b, c) < 0) {
          EXPECT_TRUE(CompareNatural(a, c) < 0) << a << " " << b << " " << c;
        }
      }
    }
  }
}

TEST(Position, PodBeforeRackBeforeHost) {
  EXPECT_LT((Position{"p1", "r9", "h9"}), (Position{"p2", "r1", "h1"}));
  EXPECT_LT((Position{"p1", "r2", "h9"}), (Position{"p1", "r10", "h1"}));
  EXPECT_LT((Position{"", "", "h2"}), (Position{"", "", "h10"}));
}

}  // namespace position_test
}  // namespace mccs
