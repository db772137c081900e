#include "service/frontend/buffer_releases.h"

#include <gmock/gmock.h>

#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {
namespace buffer_releases_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A rank's ring, and the releases of its process.
class BufferReleasesTest : public RankEndpointTest {
 protected:
  BufferReleasesTest() {
    endpoint_->communicator = reinterpret_cast<Communicator*>(alignof(Communicator*));
  }
  absl::Status Begin(uint64_t request) {
    std::vector<RingUse> uses;
    if (const uint64_t last = LastUse()) uses.push_back({0, last});
    return releases_.Begin(request, BufferId(buffer_), std::move(uses));
  }
  uint64_t LastUse(size_t budget = 1000) {
    return endpoint_->LastUseOf(BufferId(buffer_), &budget);
  }
  std::vector<uint64_t> Poll() {
    return releases_.Poll([this](const RingUse& use) { return endpoint_->HasTaken(use.records); })
        .ended;
  }

  BufferReleases releases_{*buffers_};
};

TEST_F(BufferReleasesTest, AnUnusedBufferIsReleasedAtOnce) {
  ASSERT_TRUE(Begin(7).ok());
  EXPECT_THAT(Poll(), ElementsAre(7));
  EXPECT_FALSE(buffers_->Has(BufferId(buffer_)));
  EXPECT_THAT(Poll(), IsEmpty());
}

TEST_F(BufferReleasesTest, WaitsForPostedRecords) {
  Push(Call(1));
  Push(Call(2));
  ASSERT_TRUE(Begin(7).ok());
  EXPECT_THAT(Poll(), IsEmpty());
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(endpoint_->Front().ok());
    EXPECT_THAT(Poll(), IsEmpty()) << "the operation at the front uses it";
    endpoint_->Complete();
  }
  EXPECT_THAT(Poll(), ElementsAre(7));
}

TEST_F(BufferReleasesTest, DoesNotWaitForRecordsOfOtherBuffers) {
  auto other = Call(1);
  other.send.id = other.recv.id = buffer_ + 1;
  Push(other);
  ASSERT_TRUE(Begin(7).ok());
  EXPECT_THAT(Poll(), ElementsAre(7));
}

TEST_F(BufferReleasesTest, AFactorOnTheDeviceIsAUse) {
  auto call = Call(1);
  call.send.id = call.recv.id = buffer_ + 1;
  call.scalar_buffer = {.id = buffer_, .reserved = 0, .offset = 0};
  Push(call);
  EXPECT_EQ(LastUse(), 1u);
}

TEST_F(BufferReleasesTest, ASecondReleaseIsRejected) {
  Push(Call(1));
  ASSERT_TRUE(Begin(7).ok());
  EXPECT_THAT(Begin(8).message(), HasSubstr("is being released"));
  ASSERT_TRUE(endpoint_->Front().ok());
  endpoint_->Complete();
  EXPECT_THAT(Poll(), ElementsAre(7));
  EXPECT_THAT(Begin(9).message(), HasSubstr("is not registered"));
}

TEST_F(BufferReleasesTest, DoesNotWaitForFailedOperations) {
  Push(Call(1));
  ASSERT_TRUE(Begin(7).ok());
  EXPECT_THAT(Poll(), IsEmpty());
  endpoint_->Fail(absl::UnavailableError("a peer died"));
  EXPECT_THAT(Poll(), ElementsAre(7));
}

TEST_F(BufferReleasesTest, UncheckedRecordsCountAsUses) {
  auto other = Call(1);
  other.send.id = other.recv.id = buffer_ + 1;
  for (int i = 0; i < 3; ++i) Push(other);
  EXPECT_EQ(LastUse(3), 0u);
  EXPECT_EQ(LastUse(2), 3u);
}

TEST_F(BufferReleasesTest, ChecksReleasesInTurns) {
  constexpr size_t kMany = 2 * BufferReleases::kCheckedPerTurn + 1;
  std::vector<BufferId> ids;
  for (size_t i = 0; i < kMany; ++i) {
    const LocalImporter::Handle handle = importer_->Register(memory_, 7);
    ids.push_back(
        *RegisterNow(*buffers_, {.handle = handle, .fd = UniqueFd(), .bytes = kBytes, .owner = 7}));
    ASSERT_TRUE(releases_.Begin(i, ids.back(), {{.rank = 0, .records = 1}}).ok());
  }
  const auto poll = [&](bool over) {
    return releases_.Poll([over](const RingUse&) { return over; }).ended.size();
  };
  for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(poll(false), 0u);
  EXPECT_EQ(poll(true), BufferReleases::kCheckedPerTurn);
  EXPECT_EQ(poll(true), BufferReleases::kCheckedPerTurn);
  EXPECT_EQ(poll(true), 1u);
  EXPECT_TRUE(releases_.empty());
}

// A process may have thousands of ranks whose rings name the buffer.
TEST_F(BufferReleasesTest, ATurnChecksALimitedNumberOfUses) {
  constexpr size_t kUses = 3 * BufferReleases::kCheckedPerTurn + 5;
  std::vector<RingUse> uses(kUses, RingUse{.rank = 0, .records = 1});
  ASSERT_TRUE(releases_.Begin(1, BufferId(buffer_), uses).ok());
  size_t checked = 0;
  bool over = false;
  const auto is_over = [&](const RingUse&) {
    ++checked;
    return over;
  };
  for (int turn = 0; turn < 5; ++turn) EXPECT_FALSE(releases_.Poll(is_over).moved);
  EXPECT_EQ(checked, 5u) << "one use that is not over suffices";
  over = true;
  checked = 0;
  int turns = 1;
  for (; turns < 100; ++turns) {
    const BufferReleases::Polled polled = releases_.Poll(is_over);
    EXPECT_TRUE(polled.moved) << "the engine may not sleep";
    if (!polled.ended.empty()) break;
    EXPECT_LE(checked, static_cast<size_t>(turns) * (BufferReleases::kCheckedPerTurn + 1));
  }
  EXPECT_EQ(turns, 4);
  EXPECT_EQ(checked, kUses) << "none is checked again";
}

TEST_F(BufferReleasesTest, TheUsesOfAllPendingReleasesAreLimited) {
  ASSERT_TRUE(releases_
                  .Begin(1, BufferId(buffer_),
                         std::vector<RingUse>(BufferReleases::kMaxUses, RingUse{.records = 1}))
                  .ok());
  const LocalImporter::Handle handle = importer_->Register(memory_, 7);
  const BufferId other =
      *RegisterNow(*buffers_, {.handle = handle, .fd = UniqueFd(), .bytes = kBytes, .owner = 7});
  const absl::Status status = releases_.Begin(2, other, {RingUse{.records = 1}});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(releases_.Begin(2, other, {}).ok()) << "it waits for no record";
}

TEST_F(BufferReleasesTest, DoesNotReadARingWithAnInvalidLength) {
  page().tail.store(wire::kRingRecords * 1000);
  EXPECT_EQ(LastUse(), 0u);
}

}  // namespace buffer_releases_test
}  // namespace mccs
