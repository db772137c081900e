#include "service/gpus/child_gpu_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace child_gpu_reader_test {

using testing::HasSubstr;

constexpr int64_t kLongNs = 60 * kNsPerSec;

class ChildGpuReaders : public testing::Test {
 protected:
  agent::v1::GpuSurvey ReadBy(const std::string& script, int64_t timeout_ns = kLongNs) {
    ChildGpuReader reader({.argv = {"/bin/sh", "-c", script}, .timeout_ns = timeout_ns});
    return reader.Read(stop_.get());
  }

  const UniqueFd stop_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  TemporaryDirectory directory_;
};

TEST_F(ChildGpuReaders, ReturnWhatTheProcessWrites) {
  agent::v1::GpuSurvey survey;
  survey.set_driver_version("580.1");
  survey.add_gpus()->set_name(std::string(10'000, 'x'));  // more than one read
  const std::string file = directory_.File("survey");
  std::ofstream(file) << survey.SerializeAsString();
  EXPECT_EQ(ReadBy(absl::StrCat("cat ", file)).SerializeAsString(), survey.SerializeAsString());
}

TEST_F(ChildGpuReaders, EndAProcessThatHangs) {
  ChildGpuReader reader(
      {.argv = {"/bin/sh", "-c", "exec sleep 1000"}, .timeout_ns = 50 * kNsPerMs});
  for (int i = 0; i < 2; ++i) {  // the second reading starts another process
    EXPECT_THAT(reader.Read(stop_.get()).unreadable(), HasSubstr("NVML has not answered for"));
  }
}

TEST_F(ChildGpuReaders, ReturnEarlyAtTheStop) {
  const uint64_t one = 1;
  ASSERT_EQ(write(stop_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  EXPECT_EQ(ReadBy("exec sleep 1000").unreadable(), "mccsd stops");
}

TEST_F(ChildGpuReaders, ReportAProcessThatCrashes) {
  EXPECT_THAT(ReadBy("kill -SEGV $$").unreadable(), HasSubstr("signal Segmentation fault"));
}

TEST_F(ChildGpuReaders, RejectOtherOutput) {
  EXPECT_THAT(ReadBy("true").unreadable(), HasSubstr("did not report the GPUs"));
  EXPECT_THAT(ReadBy("echo not a message").unreadable(), HasSubstr("did not report the GPUs"));
  EXPECT_THAT(ReadBy("exec cat /dev/zero").unreadable(), HasSubstr("wrote too much"));
}

TEST_F(ChildGpuReaders, ReportAProgramThatIsMissing) {
  ChildGpuReader reader({.argv = {directory_.File("missing")}});
  EXPECT_THAT(reader.Read(stop_.get()).unreadable(), HasSubstr("cannot start"));
}

}  // namespace child_gpu_reader_test
}  // namespace mccs
