#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "service/device/mapping_threads.h"

namespace mccs {
namespace fair_job_queue_test {

using testing::ElementsAre;

class NamedJob final : public MappingJob {
 public:
  NamedJob(MappingOwner owner, std::string its_name)
      : MappingJob(std::move(owner)), name(std::move(its_name)) {}
  Progress Step() override { return Progress::kDone; }
  void Finish() override {}
  const std::string name;
};

class FairJobQueueTest : public testing::Test {
 protected:
  void Push(const std::string& tenant, pid_t process, const std::string& name) {
    queue_.Push(std::make_unique<NamedJob>(MappingOwner{tenant, process}, name));
  }
  static std::string NameOf(const std::unique_ptr<MappingJob>& job) {
    return job == nullptr ? "" : static_cast<NamedJob&>(*job).name;
  }
  std::vector<std::string> PopAll() {
    std::vector<std::string> names;
    while (std::unique_ptr<MappingJob> job = queue_.Pop()) names.push_back(NameOf(job));
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

}  // namespace fair_job_queue_test
}  // namespace mccs
