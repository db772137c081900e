#include <gtest/gtest.h>
#include <unistd.h>

#include "service/frontend/unix_listener.h"

namespace mccs {
namespace process_cgroup_test {

TEST(ProcessCgroup, IsThePathOfTheUnifiedHierarchy) {
  EXPECT_EQ(CgroupIn("0::/jobs/team-a\n"), "/jobs/team-a");
  EXPECT_EQ(CgroupIn("0::/a:b\n"), "/a:b");
  EXPECT_EQ(CgroupIn("0::/\n"), "/");
  EXPECT_EQ(CgroupIn("12:cpu,cpuacct:/x\n1:name=systemd:/y\n0::/z\n"), "/z");
}

TEST(ProcessCgroup, IsSystemdsWhereVersionOneIsInUse) {
  EXPECT_EQ(CgroupIn("12:cpu,cpuacct:/x\n1:name=systemd:/user.slice\n0::/\n"), "/user.slice");
  EXPECT_EQ(CgroupIn("1:name=systemd:/user.slice\n"), "/user.slice");
}

// The name is sent to the controller, and protobuf would reject a message with other bytes.
TEST(ProcessCgroup, IsAlwaysUtf8) {
  EXPECT_EQ(CgroupIn("0::/jobs/a/\xff\xe4x\n"), "/jobs/a/??x");
  EXPECT_EQ(CgroupIn("1:name=systemd:/jobs/\xff\n"), "/jobs/?");
  EXPECT_EQ(CgroupIn("0::/jobs/\u00e4\n"), "/jobs/\u00e4");
}

TEST(ProcessCgroup, IsUnknownForOtherText) {
  for (const char* text : {"", "\n", "0", "0:", "nonsense", "12:cpu:/x\n"})
    EXPECT_EQ(CgroupIn(text), "") << text;
}

TEST(ProcessCgroup, IsUnknownForAMissingProcess) {
  EXPECT_EQ(CgroupOf(0), "");
  const std::string own = CgroupOf(getpid());
  EXPECT_TRUE(own.empty() || own.front() == '/') << own;
}

}  // namespace process_cgroup_test
}  // namespace mccs
