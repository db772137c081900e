#include "service/gpus/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mccs {
namespace gpu_watch_test {

using testing::HasSubstr;

agent::v1::GpuSurvey SurveyWithMig(const std::string& mig) {
  agent::v1::GpuSurvey survey;
  survey.add_gpus()->set_mig(mig);
  return survey;
}

// Returns the surveys of a list, then waits for the stop, as a driver that hangs.
class ScriptedReader final : public GpuReader {
 public:
  explicit ScriptedReader(std::deque<agent::v1::GpuSurvey> surveys)
      : surveys_(std::move(surveys)) {}

  agent::v1::GpuSurvey Read(int stop_fd) override {
    if (surveys_.empty()) {
      pollfd fd = {.fd = stop_fd, .events = POLLIN, .revents = 0};
      poll(&fd, 1, -1);
      return {};
    }
    agent::v1::GpuSurvey survey = surveys_.front();
    surveys_.pop_front();
    return survey;
  }

 private:
  std::deque<agent::v1::GpuSurvey> surveys_;
};

// Collects what a watch reports.
class Reports {
 public:
  std::function<void(const agent::v1::GpuSurvey&)> Listener() {
    return [this](const agent::v1::GpuSurvey& survey) {
      const std::lock_guard lock(mutex_);
      reports_.push_back(survey);
      changed_.notify_all();
    };
  }
  std::vector<agent::v1::GpuSurvey> Await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reports_.size() >= count; });
    return reports_;
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return reports_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<agent::v1::GpuSurvey> reports_;
};

GpuWatchOptions Options(std::deque<agent::v1::GpuSurvey> surveys, Reports* reports) {
  return {.reader = std::make_unique<ScriptedReader>(std::move(surveys)),
          .needs = {.cuda_version = 13000, .compute_capability = 80, .gpus = 1},
          .on_change = reports->Listener(),
          .interval_ns = 0};
}

TEST(GpuWatch, ReportsTheFirstSurveyAndChanges) {
  Reports reports;
  GpuWatch watch(
      Options({SurveyWithMig("on"), SurveyWithMig("on"), SurveyWithMig("off"), SurveyWithMig("on")},
              &reports));
  const std::vector<agent::v1::GpuSurvey> surveys = reports.Await(3);
  ASSERT_EQ(surveys[0].problems_size(), 1);
  EXPECT_THAT(surveys[0].problems(0), HasSubstr("MIG is on"));
  EXPECT_EQ(surveys[1].problems_size(), 0) << "the operator has turned MIG off";
  EXPECT_EQ(surveys[2].problems_size(), 1);
}

TEST(GpuWatch, EndsDuringAReading) {
  Reports reports;
  { GpuWatch watch(Options({}, &reports)); }
  EXPECT_EQ(reports.count(), 0u);
}

}  // namespace gpu_watch_test
}  // namespace mccs
