#include "lab/line_prefixer.h"

#include <gtest/gtest.h>

namespace mccs::lab {
namespace line_prefixer_test {

TEST(LinePrefixer, EachLineHasThePrefix) {
  LinePrefixer lines("[3] ");
  EXPECT_EQ(lines.Take("one\ntwo\n"), "[3] one\n[3] two\n");
  EXPECT_EQ(lines.Finish(), "");
}

TEST(LinePrefixer, JoinsPiecesOfALine) {
  LinePrefixer lines("[0] ");
  EXPECT_EQ(lines.Take("a"), "");
  EXPECT_EQ(lines.Take("b\n\nc"), "[0] ab\n[0] \n");
  EXPECT_EQ(lines.Finish(), "[0] c\n");
}

TEST(LinePrefixer, SplitsLongLines) {
  LinePrefixer lines(">");
  std::string out = lines.Take(std::string(2 * kMaxLineBytes + 1, 'x'));
  std::string part = ">" + std::string(kMaxLineBytes, 'x') + "\n";
  EXPECT_EQ(out, part + part);
  EXPECT_EQ(lines.Finish(), ">x\n");
}

}  // namespace line_prefixer_test
}  // namespace mccs::lab
