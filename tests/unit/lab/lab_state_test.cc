#include "lab/lab_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace lab_state_test {

using testing::HasSubstr;

LabState TwoHosts() {
  LabState state;
  state.name = "007";  // must not be read as a number
  state.supervisor_pid = 12;
  state.ready = true;
  state.daemons = {{"controller", "127.0.0.1", 13, "ready", "127.0.0.1:1", 0},
                   {"h0", "127.0.0.1", 14, "ready", "127.0.0.1:2", 4, "127.0.0.1:3"},
                   {"h1", "127.0.0.2", 0, "killed by signal 9", "", 3}};
  return state;
}

TEST(LabState, ReadsBackWhatWasWritten) {
  TemporaryDirectory directory;
  LabPaths paths{directory.path()};
  ASSERT_TRUE(WriteState(paths, TwoHosts()).ok());
  absl::StatusOr<LabState> read = ReadState(paths);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "007");
  EXPECT_EQ(read->supervisor_pid, 12);
  ASSERT_EQ(read->hosts().size(), 2u);
  EXPECT_EQ(read->hosts()[0].gpus, 4);
  EXPECT_EQ(read->hosts()[1].gpus, 3);
  EXPECT_FALSE(read->has_network());
  EXPECT_TRUE(read->ready);
  ASSERT_EQ(read->daemons.size(), 3u);
  EXPECT_EQ(read->daemons[2].name, "h1");
  EXPECT_EQ(read->daemons[2].address, "127.0.0.2");
  EXPECT_EQ(read->daemons[2].condition, "killed by signal 9");
  EXPECT_EQ(read->daemons[2].endpoint, "");
  EXPECT_EQ(read->daemons[1].metrics, "127.0.0.1:3");
}

TEST(LabState, FindsThePlaceOfAHostInAVirtualMachine) {
  TemporaryDirectory directory;
  LabPaths paths{directory.path()};
  LabState state = TwoHosts();
  EXPECT_EQ(state.PlaceOf(paths, "h1")->agent_port, 0);
  state.vms = {{"h0", 20, 40001}, {"h1", 21, 40002}};
  state.tenants = {"a", "b"};
  ASSERT_TRUE(WriteState(paths, state).ok());
  absl::StatusOr<LabState> read = ReadState(paths);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->has_network());
  EXPECT_EQ(read->tenants, state.tenants);
  EXPECT_EQ(read->PlaceOf(paths, "h1")->agent_port, 40002);
  EXPECT_EQ(read->PlaceOf(paths, "h1")->agent_key_file, paths.AgentKey());
  EXPECT_EQ(read->PlaceOf(paths, "controller")->agent_port, 40001);
  EXPECT_THAT(std::string(read->PlaceOf(paths, "h7").status().message()),
              HasSubstr("'h7'; it has controller, h0, h1"));
}

TEST(LabState, FindsTheHolderOfANode) {
  TemporaryDirectory directory;
  LabPaths paths{directory.path()};
  LabState state = TwoHosts();
  EXPECT_EQ(state.NodeHolder("h1").value(), 0);
  state.nodes = {{"controller", 20}, {"leaf0", 21}};
  ASSERT_TRUE(WriteState(paths, state).ok());
  absl::StatusOr<LabState> read = ReadState(paths);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->has_network());
  EXPECT_EQ(read->NodeHolder("leaf0").value(), 21);
  EXPECT_EQ(read->PlaceOf(paths, "leaf0")->node, 21);
  EXPECT_THAT(std::string(read->NodeHolder("leaf7").status().message()),
              HasSubstr("'leaf7'; it has controller, leaf0"));
}

TEST(LabState, RejectsAnInvalidFileWithItsPosition) {
  TemporaryDirectory directory;
  LabPaths paths{directory.path()};
  std::ofstream(paths.State()) << "name: a\nsupervisor_pid: many\n";
  absl::StatusOr<LabState> read = ReadState(paths);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("state.yaml:2"));
}

TEST(LabState, ErrorForUnknownHostListsKnownHosts) {
  LabState state = TwoHosts();
  EXPECT_TRUE(state.FindHost("h1").ok());
  EXPECT_THAT(std::string(state.FindHost("h9").status().message()),
              HasSubstr("controller, h0, h1"));
  EXPECT_FALSE(state.FindHost("controller").ok());
  EXPECT_TRUE(state.Find("controller").ok());
}

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
  std::ofstream(directory_.File("something-else")) << "";
  EXPECT_THAT(directories_.RunningNames(), ElementsAre("a", "b"));
}

TEST_F(LabDirectoriesTest, DoesNotFollowASymlink) {
  TemporaryDirectory other_directory;
  std::filesystem::create_directory_symlink(other_directory.path(), directories_.PathsOf("a").root);
  EXPECT_FALSE(directories_.IsLocked("a").ok());
  EXPECT_FALSE(directories_.CreateAndLock("a").ok());
  EXPECT_TRUE(std::filesystem::exists(other_directory.path()));
}

}  // namespace lab_state_test
}  // namespace mccs::lab
