#include "lab/lab_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/lab/temporary_folder.h"

namespace mccs::lab {
namespace {

using testing::HasSubstr;

LabState TwoHosts() {
  LabState state;
  state.name = "007";  // must not come back as a number
  state.supervisor_pid = 12;
  state.size = {.hosts = 2, .gpus_per_host = 4};
  state.ready = true;
  state.daemons = {{"controller", "127.0.0.1", 13, "ready", "127.0.0.1:1"},
                   {"h0", "127.0.0.1", 14, "ready", "127.0.0.1:2"},
                   {"h1", "127.0.0.2", 0, "killed by signal 9", ""}};
  return state;
}

TEST(LabState, ReadsBackWhatWasWritten) {
  TemporaryFolder folder;
  LabPaths paths{folder.path()};
  ASSERT_TRUE(WriteState(paths, TwoHosts()).ok());
  absl::StatusOr<LabState> read = ReadState(paths);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "007");
  EXPECT_EQ(read->supervisor_pid, 12);
  EXPECT_EQ(read->size.ranks(), 8);
  EXPECT_TRUE(read->ready);
  ASSERT_EQ(read->daemons.size(), 3u);
  EXPECT_EQ(read->daemons[2].name, "h1");
  EXPECT_EQ(read->daemons[2].address, "127.0.0.2");
  EXPECT_EQ(read->daemons[2].condition, "killed by signal 9");
  EXPECT_EQ(read->daemons[2].endpoint, "");
}

TEST(LabState, ADamagedRecordIsAnErrorWithItsPlace) {
  TemporaryFolder folder;
  LabPaths paths{folder.path()};
  std::ofstream(paths.State()) << "name: a\nsupervisor_pid: many\n";
  absl::StatusOr<LabState> read = ReadState(paths);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("state.yaml:2"));
}

TEST(LabState, AnUnknownHostIsToldWithTheKnownOnes) {
  LabState state = TwoHosts();
  EXPECT_TRUE(state.FindHost("h1").ok());
  EXPECT_THAT(std::string(state.FindHost("h9").status().message()),
              HasSubstr("controller, h0, h1"));
  EXPECT_FALSE(state.FindHost("controller").ok());
  EXPECT_TRUE(state.Find("controller").ok());
}

}  // namespace
}  // namespace mccs::lab
