#include "service/device/memory_mapper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <vector>

#include "tests/unit/device/local_importer.h"

namespace mccs {
namespace memory_mapper_test {

using Jobs = std::deque<std::unique_ptr<MappingJob>>;

// Runs jobs to their end, the last one first.
class PausedRunner final : public MappingRunner {
 public:
  explicit PausedRunner(Jobs& jobs, size_t finishes = Jobs().max_size())
      : jobs_(jobs), finishes_(finishes) {}
  void Start(Lane, std::unique_ptr<MappingJob> job) override { jobs_.push_back(std::move(job)); }
  std::unique_ptr<MappingJob> TakeFinished() override {
    if (jobs_.empty() || finishes_ == 0) return nullptr;
    --finishes_;
    std::unique_ptr<MappingJob> job = std::move(jobs_.back());
    jobs_.pop_back();
    while (job->Step() != MappingJob::Progress::kDone) {
    }
    return job;
  }

 private:
  Jobs& jobs_;
  size_t finishes_;
};

TEST(MemoryMapper, ATenantWithManyDescriptorsToCloseIsFullUntilTheyAreClosed) {
  Jobs jobs;
  MemoryMapper mapper(std::make_unique<LocalImporter>(), std::make_unique<PausedRunner>(jobs));
  for (size_t i = 0; i < MemoryMapper::kMaxClosing; ++i) {
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

TEST(MemoryMapper, AMappingIsReadyAfterEarlierUnmappings) {
  const MappingOwner blue{.tenant = "blue", .process = 7};
  const MappingOwner other{.tenant = "blue", .process = 8};
  std::vector<std::byte> memory(4096);
  auto importer = std::make_unique<LocalImporter>();
  const auto offer = [&, handle = importer->Register(memory, 7)] {
    return BufferExport{.handle = handle, .fd = {}, .bytes = memory.size(), .owner = 7};
  };
  Jobs jobs;
  MemoryMapper mapper(std::move(importer), std::make_unique<PausedRunner>(jobs, /*finishes=*/3));
  const auto first = mapper.Import(blue, offer());
  mapper.Poll();
  ASSERT_TRUE(first->ready()) << first->status;
  mapper.Unmap(blue, std::move(first->memory), nullptr);
  const auto second = mapper.Import(blue, offer());
  const auto of_other = mapper.Import(other, offer());
  mapper.Poll();
  EXPECT_TRUE(of_other->ready());
  EXPECT_TRUE(second->done);
  EXPECT_FALSE(second->ready());
  jobs.front()->Finish();
  EXPECT_TRUE(second->ready());
}

// Either may be the last reference to its file. Large ones are closed on the thread for long jobs.
TEST(MemoryMapper, DescriptorsOfAnOfferAreClosedByItsJob) {
  constexpr off_t kLarge = off_t{1} << 30;
  for (const off_t bytes : {off_t{4096}, kLarge}) {
    Jobs jobs;
    MemoryMapper mapper(std::make_unique<LocalImporter>(), std::make_unique<PausedRunner>(jobs));
    BufferExport offer{.handle = {}, .fd = {}, .bytes = 4096, .owner = 7};  // of no memory
    UniqueFd dma_buf(memfd_create("dma-buf", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(dma_buf.get(), bytes), 0);
    const int number = dma_buf.get();
    offer.dma_buf = std::move(dma_buf);
    const auto pending = mapper.Import({.tenant = "blue", .process = 7}, std::move(offer));
    ASSERT_EQ(jobs.size(), 1u);
    MappingJob::Progress progress = jobs.front()->Step();
    EXPECT_EQ(progress,
              bytes == kLarge ? MappingJob::Progress::kLong : MappingJob::Progress::kDone);
    EXPECT_EQ(fcntl(number, F_GETFD) >= 0, bytes == kLarge);
    if (progress != MappingJob::Progress::kDone) progress = jobs.front()->Step();
    EXPECT_EQ(progress, MappingJob::Progress::kDone);
    EXPECT_EQ(fcntl(number, F_GETFD), -1) << "closed before the engine has the job";
    jobs.front()->Finish();
    EXPECT_FALSE(pending->status.ok());
  }
}

}  // namespace memory_mapper_test
}  // namespace mccs
