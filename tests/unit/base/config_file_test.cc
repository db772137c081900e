#include "base/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace config_file_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ConfigFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  // A program that applies `log_level` only.
  ConfigFile::Changes Reload(ConfigFile* file) {
    const auto changes = file->Reload([](const std::string& key) -> std::optional<std::string> {
      if (key != "log_level") return std::nullopt;
      return "log_level as configured";
    });
    EXPECT_TRUE(changes.ok()) << changes.status();
    return changes.ok() ? *changes : ConfigFile::Changes();
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/config.yaml";
};

TEST_F(ConfigFileTest, NamesChangedAddedAndRemovedKeysOfTheTopLevel) {
  Write("listen: 1.2.3.4:7400\nlanes:\n  slots: 8\n  skew: 3\nhost: h0\n");
  ConfigFile file = *ConfigFile::Read(path_);
  EXPECT_THAT(Reload(&file).need_restart, IsEmpty());
  Write("listen: 1.2.3.4:7400\nlanes:\n  slots: 8\n  skew: 4\nrdma: {mtu: 1024}\n");
  EXPECT_THAT(Reload(&file).need_restart, ElementsAre("host", "lanes", "rdma"));
}

TEST_F(ConfigFileTest, IgnoresCommentsAndTheOrderOfKeys) {
  Write("listen: a\nhost: h0\n");
  ConfigFile file = *ConfigFile::Read(path_);
  Write("# the host\nhost: h0   # as in mccsctl\n\nlisten: a\n");
  EXPECT_THAT(Reload(&file).need_restart, IsEmpty());
}

TEST_F(ConfigFileTest, AnAppliedKeyIsInUseAndOthersNeedARestartUntilTheOldValueIsBack) {
  Write("log_level: info\nhost: h0\n");
  ConfigFile file = *ConfigFile::Read(path_);
  Write("log_level: debug\nhost: h1\n");
  const ConfigFile::Changes changes = Reload(&file);
  EXPECT_THAT(changes.applied, ElementsAre("log_level as configured"));
  EXPECT_THAT(changes.need_restart, ElementsAre("host"));
  const ConfigFile::Changes again = Reload(&file);
  EXPECT_THAT(again.applied, IsEmpty());
  EXPECT_THAT(again.need_restart, ElementsAre("host"));
  Write("host: h0\n");
  const ConfigFile::Changes back = Reload(&file);
  EXPECT_THAT(back.applied, ElementsAre("log_level as configured")) << "the default, again";
  EXPECT_THAT(back.need_restart, IsEmpty());
  EXPECT_THAT(Reload(&file).applied, IsEmpty());
}

TEST_F(ConfigFileTest, AnInvalidFileChangesNothing) {
  Write("log_level: info\n");
  ConfigFile file = *ConfigFile::Read(path_);
  Write("log_level: [\n");
  bool applied = false;
  const auto changes = file.Reload([&](const std::string&) {
    applied = true;
    return std::optional<std::string>("");
  });
  EXPECT_FALSE(changes.ok());
  EXPECT_THAT(changes.status().message(), HasSubstr(path_));
  EXPECT_FALSE(applied);
}

TEST_F(ConfigFileTest, AMissingFileIsAnError) {
  EXPECT_EQ(ConfigFile::Read(path_).status().code(), absl::StatusCode::kNotFound);
}

TEST(DescribeChanges, IsOneLine) {
  EXPECT_EQ(Describe("/etc/x", {}), "reloaded /etc/x: nothing has changed");
  EXPECT_EQ(Describe("/etc/x", {.applied = {"log_level debug", "operators"}, .need_restart = {}}),
            "reloaded /etc/x: now log_level debug, operators");
  EXPECT_EQ(Describe("/etc/x", {.applied = {}, .need_restart = {"lanes", "listen"}}),
            "reloaded /etc/x: nothing else has changed; a restart is needed for: lanes, listen");
  EXPECT_EQ(Describe("/etc/x", {.applied = {"log_level debug"}, .need_restart = {"listen"}}),
            "reloaded /etc/x: now log_level debug; a restart is needed for: listen");
}

}  // namespace config_file_test
}  // namespace mccs
