#include "trust/stored_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace stored_key_test {

using testing::HasSubstr;

class StoredKeyTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Read() { return ReadOrMakeKey(path_, random_); }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.File("key");
  SeededRandom random_{1};
};

TEST_F(StoredKeyTest, IsMadeOnce) {
  const absl::StatusOr<std::string> made = Read();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size(), kStoredKeyBytes);
  EXPECT_EQ(*Read(), *made);
  EXPECT_NE(MakeKey(random_), *made);
  std::filesystem::remove(path_);
  EXPECT_NE(*Read(), *made);
}

TEST_F(StoredKeyTest, IsTheUsersOnly) {
  ASSERT_TRUE(Read().ok());
  struct stat facts {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(StoredKeyTest, AFileWithoutKeyIsRejectedAndStays) {
  for (const char* text : {"x\n", "00ff\n"}) {
    std::ofstream(path_) << text;
    const absl::Status rejected = Read().status();
    EXPECT_TRUE(absl::IsDataLoss(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr(path_ + " has no key"));
  }
}

TEST_F(StoredKeyTest, AnErrorNamesTheFile) {
  const std::string path = directory_.File("nothing/key");
  EXPECT_THAT(std::string(ReadOrMakeKey(path, random_).status().message()), HasSubstr(path));
}

}  // namespace stored_key_test
}  // namespace mccs
