#include "service/device/mapping_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mccs {
namespace mapping_threads_test {

using Lane = MappingRunner::Lane;
using Progress = MappingJob::Progress;
using testing::ElementsAre;

// Runs `step` until it returns kDone, and reports its end.
class TestJob final : public MappingJob {
 public:
  TestJob(std::string name, std::function<Progress()> step, std::atomic<int>* destroyed = nullptr,
          MappingOwner owner = {"blue", 7})
      : MappingJob(std::move(owner)),
        name(std::move(name)),
        step_(std::move(step)),
        destroyed_(destroyed) {}
  ~TestJob() override {
    if (destroyed_ != nullptr) ++*destroyed_;
  }
  Progress Step() override { return step_(); }
  void Finish() override {}
  const std::string name;

 private:
  const std::function<Progress()> step_;
  std::atomic<int>* const destroyed_;
};

class MappingThreadsTest : public testing::Test {
 protected:
  void Start(Lane lane, std::string name, std::function<Progress()> step) {
    threads_.Start(lane, std::make_unique<TestJob>(std::move(name), std::move(step)));
  }
  std::string AwaitFinished() {
    for (;;) {
      if (const auto job = threads_.TakeFinished()) return static_cast<TestJob&>(*job).name;
      std::this_thread::yield();
    }
  }

  std::atomic<int> woken_{0};
  MappingThreads threads_{[this] { ++woken_; }};
};

TEST_F(MappingThreadsTest, AJobIsSteppedUntilItIsDoneAndTheEngineIsWoken) {
  int steps = 0;
  Start(Lane::kMap, "a", [&] { return ++steps == 5 ? Progress::kDone : Progress::kMore; });
  EXPECT_EQ(AwaitFinished(), "a");
  EXPECT_EQ(steps, 5);
  while (woken_ == 0) std::this_thread::yield();
  EXPECT_EQ(threads_.TakeFinished(), nullptr);
}

TEST_F(MappingThreadsTest, JobsOfOneProcessEndInOrder) {
  for (const char* name : {"a", "b", "c"}) {
    Start(Lane::kUnmap, name,
          [steps = 0]() mutable { return ++steps == 3 ? Progress::kDone : Progress::kMore; });
  }
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) names.push_back(AwaitFinished());
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
}

TEST_F(MappingThreadsTest, ALongReleaseBlocksNoRegistration) {
  std::atomic<bool> may_end{false};
  Start(Lane::kUnmap, "release", [&] { return may_end ? Progress::kDone : Progress::kMore; });
  Start(Lane::kMap, "registration", [] { return Progress::kDone; });
  EXPECT_EQ(AwaitFinished(), "registration");
  may_end = true;
  EXPECT_EQ(AwaitFinished(), "release");
}

TEST_F(MappingThreadsTest, ALongStepBlocksNoOtherRelease) {
  std::atomic<bool> may_end{false};
  Start(Lane::kUnmap, "large", [&, first = true]() mutable {
    if (std::exchange(first, false)) return Progress::kLong;
    while (!may_end) std::this_thread::yield();
    return Progress::kDone;
  });
  Start(Lane::kUnmap, "small", [] { return Progress::kDone; });
  EXPECT_EQ(AwaitFinished(), "small");
  may_end = true;
  EXPECT_EQ(AwaitFinished(), "large");
}

TEST(MappingThreads, JobsThatHaveNotEndedAreDestroyedAtTheEnd) {
  std::atomic<int> destroyed{0};
  {
    MappingThreads threads([] {});
    for (int i = 0; i < 100; ++i) {
      threads.Start(
          i % 2 == 0 ? Lane::kMap : Lane::kUnmap,
          std::make_unique<TestJob>(
              "", [i] { return i % 3 == 0 ? Progress::kDone : Progress::kMore; }, &destroyed));
    }
  }
  EXPECT_EQ(destroyed, 100);
}

TEST(MappingThreads, ReturnsAllOfManyJobs) {
  constexpr int kJobs = 20'000;
  MappingThreads threads([] {});
  int back = 0;
  for (int i = 0; i < kJobs; ++i) {
    threads.Start(i % 2 == 0 ? Lane::kMap : Lane::kUnmap,
                  std::make_unique<TestJob>("", [left = i % 4]() mutable {
                    return left-- == 0 ? Progress::kDone : Progress::kMore;
                  }));
    while (threads.TakeFinished() != nullptr) ++back;
  }
  while (back < kJobs) {
    if (threads.TakeFinished() != nullptr) {
      ++back;
    } else {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(threads.TakeFinished(), nullptr);
}

// ---- The queue of jobs --------------------------------------------------------------------------

class FairJobQueueTest : public testing::Test {
 protected:
  void Push(const std::string& tenant, pid_t process, const std::string& name) {
    queue_.Push(std::make_unique<TestJob>(name, nullptr, nullptr, MappingOwner{tenant, process}));
  }
  std::vector<std::string> PopAll() {
    std::vector<std::string> names;
    while (const auto job = queue_.Pop()) names.push_back(static_cast<TestJob&>(*job).name);
    return names;
  }

  FairJobQueue queue_;
};

TEST_F(FairJobQueueTest, TheJobsOfAProcessStayInOrder) {
  for (const char* name : {"1", "2", "3"}) Push("blue", 7, name);
  EXPECT_THAT(PopAll(), ElementsAre("1", "2", "3"));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairJobQueueTest, TenantsTakeTurnsHoweverManyProcessesTheyHave) {
  for (pid_t process = 1; process <= 3; ++process) Push("blue", process, "blue");
  for (const char* name : {"red 1", "red 2"}) Push("red", 9, name);
  EXPECT_THAT(PopAll(), ElementsAre("blue", "red 1", "blue", "red 2", "blue"));
}

TEST_F(FairJobQueueTest, ProcessesOfATenantTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) Push("blue", 1, name);
  Push("blue", 2, "b");
  EXPECT_THAT(PopAll(), ElementsAre("a1", "b", "a2", "a3"));
}

TEST_F(FairJobQueueTest, AReturnedJobIsFirstOfItsProcessAfterOthersTurns) {
  Push("blue", 1, "large");
  Push("blue", 1, "later");
  std::unique_ptr<MappingJob> large = queue_.Pop();
  Push("blue", 2, "small");
  Push("red", 3, "other");
  queue_.Return(std::move(large));
  EXPECT_THAT(PopAll(), ElementsAre("large", "other", "small", "later"));
}

TEST_F(FairJobQueueTest, AReturnedJobOfAnEmptyQueueIsNext) {
  Push("blue", 1, "large");
  queue_.Return(queue_.Pop());
  EXPECT_THAT(PopAll(), ElementsAre("large"));
}

}  // namespace mapping_threads_test
}  // namespace mccs
