#include "lab/lab_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/lab/temporary_directory.h"

namespace mccs::lab {
namespace lab_directory_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LabName, AcceptsPortableFileNames) {
  EXPECT_TRUE(ValidateLabName("default").ok());
  EXPECT_TRUE(ValidateLabName("a-1_b").ok());
  for (const char* bad : {"", "A", "a/b", "..", "a b", "123456789012345678901234567890123"}) {
    EXPECT_FALSE(ValidateLabName(bad).ok()) << bad;
  }
}

class LabDirectoriesTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  LabDirectories directories_{directory_.path()};
};

TEST_F(LabDirectoriesTest, LocksALabOnce) {
  absl::StatusOr<UniqueFd> first = directories_.CreateAndLock("a");
  ASSERT_TRUE(first.ok()) << first.status();
  absl::StatusOr<UniqueFd> second = directories_.CreateAndLock("a");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("mccs-lab down --name a"));
  EXPECT_TRUE(directories_.CreateAndLock("b").ok());
}

TEST_F(LabDirectoriesTest, RemovesTheDirectoryOfAKilledLab) {
  {
    absl::StatusOr<UniqueFd> hold = directories_.CreateAndLock("a");
    ASSERT_TRUE(hold.ok());
    std::ofstream(directories_.PathsOf("a").State()) << "left behind";
    EXPECT_TRUE(directories_.IsLocked("a").value());
  }
  EXPECT_FALSE(directories_.IsLocked("a").value());
  EXPECT_FALSE(std::filesystem::exists(directories_.PathsOf("a").root));
}

TEST_F(LabDirectoriesTest, NewLabReplacesAKilledOne) {
  { ASSERT_TRUE(directories_.CreateAndLock("a").ok()); }
  EXPECT_TRUE(directories_.CreateAndLock("a").ok());
}

TEST_F(LabDirectoriesTest, ListsRunningLabs) {
  EXPECT_THAT(directories_.RunningNames(), IsEmpty());
  absl::StatusOr<UniqueFd> b = directories_.CreateAndLock("b");
  absl::StatusOr<UniqueFd> a = directories_.CreateAndLock("a");
  { ASSERT_TRUE(directories_.CreateAndLock("gone").ok()); }
  std::ofstream(directory_.path() + "/something-else") << "";
  EXPECT_THAT(directories_.RunningNames(), ElementsAre("a", "b"));
}

TEST_F(LabDirectoriesTest, DoesNotFollowASymlink) {
  TemporaryDirectory elsewhere;
  std::filesystem::create_directory_symlink(elsewhere.path(), directories_.PathsOf("a").root);
  EXPECT_FALSE(directories_.IsLocked("a").ok());
  EXPECT_FALSE(directories_.CreateAndLock("a").ok());
  EXPECT_TRUE(std::filesystem::exists(elsewhere.path()));
}

}  // namespace lab_directory_test
}  // namespace mccs::lab
