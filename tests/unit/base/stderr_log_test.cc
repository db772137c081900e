#include "base/stderr_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mccs {
namespace stderr_log_test {

using testing::EndsWith;

// The line that the log writes for `message`.
std::string Written(const std::string& message) {
  testing::internal::CaptureStderr();
  MakeStderrLog("program", LogLevel::kInfo)->Info(message);
  return testing::internal::GetCapturedStderr();
}

TEST(StderrLog, AMessageIsOneLineWithoutControlCharacters) {
  EXPECT_THAT(Written("a\n2026-01-01 I other[1] b"), EndsWith(" a\\n2026-01-01 I other[1] b\n"));
  EXPECT_THAT(Written("a\r\x1b[2K\x7f\xc2\x9b"
                      "b"),
              EndsWith(" a??[2K??b\n"));
  EXPECT_THAT(Written("caf\xc3\xa9 \xe9"), EndsWith(" caf\xc3\xa9 ?\n"));
}

TEST(StderrLog, CutsALongMessage) {
  EXPECT_THAT(Written(std::string(8192, 'x')), EndsWith(std::string(8192, 'x') + "\n"));
  EXPECT_THAT(Written(std::string(8193, 'x')), EndsWith("xxx... (8193 bytes)\n"));
}

}  // namespace stderr_log_test
}  // namespace mccs
