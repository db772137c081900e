#include "base/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>

#include "tests/unit/open_descriptors.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace {

// Descriptors for which the kernel has places.
rlim_t TableSize() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    rlim_t size = 0;
    if (key == "FDSize:" && status >> size) return size;
  }
  return 0;
}

TEST(DescriptorLimit, TheTableHasPlacesForAllDescriptors) {
  const size_t before = OpenDescriptors();
  RecordingLog log;
  RaiseDescriptorLimit(log);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_GE(TableSize(), std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace mccs
