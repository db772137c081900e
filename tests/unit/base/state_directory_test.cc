#include "base/state_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace state_directory_test {

class StateDirectoryTest : public testing::Test {
 protected:
  void TearDown() override {
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }
  std::string Line(const std::string& name) {
    std::string text;
    std::ifstream(path_ + "/" + name) >> text;
    return text;
  }
  const std::string path_ = absl::StrCat(testing::TempDir(), "/mccs-state-", getpid(), "/deep");
};

TEST_F(StateDirectoryTest, FilesExistWhileTheOwnerRuns) {
  {
    const auto state = StateDirectory::Claim(path_, "mccsd");
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(Line("pid"), absl::StrCat(getpid()));
    EXPECT_FALSE(std::filesystem::exists(path_ + "/endpoint")) << "not ready yet";
    ASSERT_TRUE((*state)->PublishMetrics("10.0.0.1:7401").ok());
    ASSERT_TRUE((*state)->Publish("10.0.0.1:7400").ok());
    EXPECT_EQ(Line("endpoint"), "10.0.0.1:7400");
    EXPECT_EQ(Line("metrics"), "10.0.0.1:7401");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 3)
        << "no temporary files are left";
  }
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(StateDirectoryTest, RejectsADirectoryInUse) {
  const auto first = StateDirectory::Claim(path_, "mccsd");
  ASSERT_TRUE(first.ok());
  const auto second = StateDirectory::Claim(path_, "mccsd");
  EXPECT_TRUE(absl::IsAlreadyExists(second.status()));
  EXPECT_NE(second.status().message().find("another mccsd"), absl::string_view::npos);
  EXPECT_EQ(Line("pid"), absl::StrCat(getpid()));
}

TEST_F(StateDirectoryTest, TakesOverFilesOfADeadOwner) {
  std::filesystem::create_directories(path_);
  std::ofstream(path_ + "/pid") << "99999999\n";
  const auto state = StateDirectory::Claim(path_, "mccsd");
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(Line("pid"), absl::StrCat(getpid()));
}

TEST_F(StateDirectoryTest, NamesADirectoryThatCannotBeCreated) {
  const auto state = StateDirectory::Claim("/proc/nowhere/x", "mccsd");
  EXPECT_FALSE(state.ok());
  EXPECT_NE(state.status().message().find("/proc/nowhere/x"), absl::string_view::npos);
}

}  // namespace state_directory_test
}  // namespace mccs
