#include "service/device/memory_mapper.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <deque>

#include "service/device/local_importer.h"

namespace mccs {
namespace {

// Steps jobs to their end when it is told to.
class PausedRunner final : public MappingRunner {
 public:
  explicit PausedRunner(std::deque<std::unique_ptr<MappingJob>>& jobs) : jobs_(jobs) {}
  void Start(Lane, std::unique_ptr<MappingJob> job) override { jobs_.push_back(std::move(job)); }
  std::unique_ptr<MappingJob> TakeFinished() override {
    if (jobs_.empty()) return nullptr;
    std::unique_ptr<MappingJob> job = std::move(jobs_.front());
    jobs_.pop_front();
    while (job->Step() != MappingJob::Progress::kDone) {
    }
    return job;
  }

 private:
  std::deque<std::unique_ptr<MappingJob>>& jobs_;
};

TEST(MemoryMapper, ATenantWithManyDescriptorsToCloseIsFullUntilTheyAreClosed) {
  std::deque<std::unique_ptr<MappingJob>> jobs;
  MemoryMapper mapper(std::make_unique<LocalImporter>(), std::make_unique<PausedRunner>(jobs));
  for (size_t i = 0; i < MemoryMapper::kMostClosing; ++i) {
    EXPECT_FALSE(mapper.IsFull("blue"));
    mapper.Close({.tenant = "blue", .process = 7}, UniqueFd(memfd_create("file", MFD_CLOEXEC)));
  }
  EXPECT_TRUE(mapper.IsFull("blue"));
  EXPECT_FALSE(mapper.IsFull("red"));
  EXPECT_TRUE(mapper.Poll());
  EXPECT_FALSE(mapper.IsFull("blue"));
  while (mapper.Poll()) {
  }
  EXPECT_TRUE(jobs.empty());
}

}  // namespace
}  // namespace mccs
