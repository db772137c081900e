#include "lab/lab_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/lab/temporary_folder.h"

namespace mccs::lab {
namespace lab_directory_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LabName, TakesWhatFitsAFileNameEverywhere) {
  EXPECT_TRUE(ValidateLabName("default").ok());
  EXPECT_TRUE(ValidateLabName("a-1_b").ok());
  for (const char* bad : {"", "A", "a/b", "..", "a b", "123456789012345678901234567890123"}) {
    EXPECT_FALSE(ValidateLabName(bad).ok()) << bad;
  }
}

class LabDirectoriesTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  LabDirectories directories_{folder_.path()};
};

TEST_F(LabDirectoriesTest, OneHoldsALabAtATime) {
  absl::StatusOr<UniqueFd> first = directories_.CreateAndHold("a");
  ASSERT_TRUE(first.ok()) << first.status();
  absl::StatusOr<UniqueFd> second = directories_.CreateAndHold("a");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("mccs-lab down --name a"));
  EXPECT_TRUE(directories_.CreateAndHold("b").ok());
}

TEST_F(LabDirectoriesTest, WhatAKilledLabLeftIsRemovedByTheNextLook) {
  {
    absl::StatusOr<UniqueFd> hold = directories_.CreateAndHold("a");
    ASSERT_TRUE(hold.ok());
    std::ofstream(directories_.PathsOf("a").State()) << "left behind";
    EXPECT_TRUE(directories_.IsHeld("a").value());
  }
  EXPECT_FALSE(directories_.IsHeld("a").value());
  EXPECT_FALSE(std::filesystem::exists(directories_.PathsOf("a").root));
}

TEST_F(LabDirectoriesTest, ANewLabTakesThePlaceOfAKilledOne) {
  { ASSERT_TRUE(directories_.CreateAndHold("a").ok()); }
  EXPECT_TRUE(directories_.CreateAndHold("a").ok());
}

TEST_F(LabDirectoriesTest, ListsWhatIsHeldByName) {
  EXPECT_THAT(directories_.HeldNames(), IsEmpty());
  absl::StatusOr<UniqueFd> b = directories_.CreateAndHold("b");
  absl::StatusOr<UniqueFd> a = directories_.CreateAndHold("a");
  { ASSERT_TRUE(directories_.CreateAndHold("gone").ok()); }
  std::ofstream(folder_.path() + "/something-else") << "";
  EXPECT_THAT(directories_.HeldNames(), ElementsAre("a", "b"));
}

TEST_F(LabDirectoriesTest, ALinkInPlaceOfTheFolderIsNotFollowed) {
  TemporaryFolder elsewhere;
  std::filesystem::create_directory_symlink(elsewhere.path(), directories_.PathsOf("a").root);
  EXPECT_FALSE(directories_.IsHeld("a").ok());
  EXPECT_FALSE(directories_.CreateAndHold("a").ok());
  EXPECT_TRUE(std::filesystem::exists(elsewhere.path()));
}

}  // namespace lab_directory_test
}  // namespace mccs::lab
