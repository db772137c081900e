#include "base/state_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

TEST(StateFiles, AreThereWhileTheirOwnerLives) {
  const std::string dir = absl::StrCat(testing::TempDir(), "/mccs-state-", getpid(), "/deep");
  {
    absl::StatusOr<StateFiles> files =
        StateFiles::Write(dir, {{"pid", "7\n"}, {"endpoint", "a:1\n"}});
    ASSERT_TRUE(files.ok()) << files.status();
    const StateFiles owner = *std::move(files);
    std::string text;
    std::ifstream(dir + "/endpoint") >> text;
    EXPECT_EQ(text, "a:1");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2)
        << "no drafts are left";
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  std::filesystem::remove_all(std::filesystem::path(dir).parent_path());
}

TEST(StateFiles, ADirectoryThatCannotBeMadeIsNamed) {
  const auto files = StateFiles::Write("/proc/nowhere/x", {});
  EXPECT_FALSE(files.ok());
  EXPECT_NE(files.status().message().find("/proc/nowhere/x"), absl::string_view::npos);
}

}  // namespace
}  // namespace mccs
