// Virtual memory that is shared in chunks: the requests to the daemon, and when they are sent.
#include "shim/process/process.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace virtual_ranges_test {

using test_cuda::Synchronize;
using ::testing::HasSubstr;
using wire::MessageKind;

constexpr size_t kChunk = test_cuda::kGranularity;
constexpr size_t kInts = kChunk / sizeof(int);

class VirtualRanges : public ShimTest {
 protected:
  // An all-reduce of one rank: its output equals its input if the daemon maps the right memory.
  void Sum(std::byte* from, size_t bytes, int value) {
    auto* in = reinterpret_cast<int*>(from);
    const size_t count = bytes / sizeof(int);
    std::fill_n(in, count, value);
    int* out = Buffer<int>(std::vector<int>(count, -1));
    ASSERT_EQ(ncclAllReduce(in, out, count, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess)
        << LastError();
    ASSERT_TRUE(Synchronize(nullptr));
    EXPECT_TRUE(Read(out, count) == std::vector<int>(count, value));
  }
  void SumInPlace(std::byte* from, size_t bytes, int value) {
    auto* data = reinterpret_cast<int*>(from);
    const size_t count = bytes / sizeof(int);
    std::fill_n(data, count, value);
    ASSERT_EQ(ncclAllReduce(data, data, count, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess)
        << LastError();
    ASSERT_TRUE(Synchronize(nullptr));
    EXPECT_TRUE(Read(data, count) == std::vector<int>(count, value));
  }
  int Count(MessageKind kind) { return daemon_.CountOf(kind); }

  std::byte* const segment_ = test_cuda::Reserve(64 * kChunk);
};

TEST_F(VirtualRanges, BufferOverSeveralChunksIsContiguous) {
  MakeRanks(1);
  for (size_t i = 0; i < 3; ++i) test_cuda::Map(segment_ + i * kChunk, kChunk);
  Sum(segment_ + 100, 3 * kChunk - 100, 5);
  EXPECT_EQ(Count(MessageKind::kReserveRange), 1);
  EXPECT_EQ(Count(MessageKind::kMapChunk), 3);
  Sum(segment_ + kChunk, kChunk, 6);
  Sum(segment_, 3 * kChunk, 7);
  EXPECT_EQ(Count(MessageKind::kMapChunk), 3) << "already mapped";
  const auto records = daemon_.RecordsOf(0);
  EXPECT_EQ(records[1].send.offset, records[2].send.offset + kChunk);
}

TEST_F(VirtualRanges, GrowingSegmentKeepsItsMappings) {
  MakeRanks(1);
  for (size_t chunks = 1; chunks <= 12; ++chunks) {
    test_cuda::Map(segment_ + (chunks - 1) * kChunk, kChunk);
    SumInPlace(segment_, chunks * kChunk, static_cast<int>(chunks));
    EXPECT_EQ(Count(MessageKind::kMapChunk), static_cast<int>(chunks));
  }
  EXPECT_EQ(Count(MessageKind::kReserveRange), 1);
  EXPECT_EQ(Count(MessageKind::kUnmapChunks), 0);
}

TEST_F(VirtualRanges, DetectsARemappedChunk) {
  MakeRanks(1);
  for (size_t i = 0; i < 3; ++i) test_cuda::Map(segment_ + i * kChunk, kChunk);
  for (int round = 1; round <= 4; ++round) {
    SumInPlace(segment_, 3 * kChunk, round);
    test_cuda::Unmap(segment_ + kChunk);
    test_cuda::Map(segment_ + kChunk, kChunk);
  }
  EXPECT_EQ(Count(MessageKind::kUnmapChunks), 3);
  EXPECT_EQ(Count(MessageKind::kMapChunk), 6);
}

TEST_F(VirtualRanges, DetectsChunksOfOtherSizesAtOldAddresses) {
  MakeRanks(1);
  for (size_t i = 0; i < 4; ++i) test_cuda::Map(segment_ + i * kChunk, kChunk);
  SumInPlace(segment_, 4 * kChunk, 1);
  for (size_t i = 0; i < 4; ++i) test_cuda::Unmap(segment_ + i * kChunk);
  test_cuda::Map(segment_, 3 * kChunk);
  test_cuda::Map(segment_ + 3 * kChunk, 2 * kChunk);
  SumInPlace(segment_, 5 * kChunk, 2);
  EXPECT_EQ(Count(MessageKind::kUnmapChunks), 2) << "three chunks, and the fourth";
  EXPECT_EQ(Count(MessageKind::kMapChunk), 6);
}

TEST_F(VirtualRanges, StagesMemoryThatCannotBeShared) {
  MakeRanks(1);
  test_cuda::Map(segment_, kChunk);
  test_cuda::Map(segment_ + kChunk, kChunk, /*shareable=*/false);
  Sum(segment_, 2 * kChunk, 3);
  EXPECT_EQ(daemon_.RecordsOf(0)[0].send.offset, 0u) << "in staging memory";
  Sum(segment_, kChunk, 4);
  EXPECT_NE(daemon_.RecordsOf(0)[1].send.offset, 0u) << "the shared chunk alone is not staged";
}

TEST_F(VirtualRanges, StagesRejectedChunksAndRetries) {
  MakeRanks(1);
  test_cuda::Map(segment_, kChunk);
  daemon_.FailChunks("the tenant has too many");
  Sum(segment_, kChunk, 3);
  daemon_.FailChunks("");
  Sum(segment_, kChunk, 4);
  EXPECT_EQ(Count(MessageKind::kMapChunk), 2);
  EXPECT_NE(daemon_.RecordsOf(0)[1].send.id, daemon_.RecordsOf(0)[0].send.id);
}

TEST_F(VirtualRanges, RejectsARangeWithAGap) {
  MakeRanks(1);
  test_cuda::Map(segment_, kChunk);
  test_cuda::Map(segment_ + 2 * kChunk, kChunk);
  auto* data = reinterpret_cast<int*>(segment_);
  EXPECT_EQ(ncclAllReduce(data, data, 3 * kInts, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("nothing is mapped at"));
  EXPECT_EQ(ncclAllReduce(data, data, kInts + 1, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  SumInPlace(segment_, kChunk, 1);
}

TEST_F(VirtualRanges, InvalidCountReservesNothing) {
  MakeRanks(1);
  test_cuda::Map(segment_, kChunk);
  auto* data = reinterpret_cast<int*>(segment_);
  for (const size_t count : {kInts + 1, size_t{1} << 44, size_t{1} << 61}) {
    EXPECT_EQ(ncclAllReduce(data, data, count, ncclInt, ncclSum, comms_[0], nullptr),
              ncclInvalidArgument);
    EXPECT_THAT(LastError(), HasSubstr("nothing is mapped at"));
  }
  EXPECT_EQ(Count(MessageKind::kReserveRange), 0);
}

TEST_F(VirtualRanges, RejectsAnInvalidCountWithoutReservation) {
  MakeRanks(1);
  test_cuda::Map(segment_, kChunk);
  daemon_.FailRequestsWith(wire::ErrorClass::kSystem);
  auto* data = reinterpret_cast<int*>(segment_);
  EXPECT_EQ(ncclAllReduce(data, data, kInts + 1, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("nothing is mapped at"));
}

TEST_F(VirtualRanges, ReleasesEmptyReservations) {
  MakeRanks(1);
  for (int i = 0; i < 4; ++i) {
    // The distance between two exceeds the size of one reservation of the daemon. The thread
    // sanitizer leaves about 1.5 TiB of addresses.
    std::byte* const far = test_cuda::Reserve(size_t{1} << 38);
    test_cuda::Map(far, kChunk);
    Sum(far, kChunk, i);
    shim::Process::ReleaseRange({reinterpret_cast<uintptr_t>(far), kChunk});
    test_cuda::Unmap(far);
  }
  EXPECT_EQ(Count(MessageKind::kReserveRange), 4);
  EXPECT_EQ(Count(MessageKind::kReleaseBuffer), 3);
}

TEST_F(VirtualRanges, ReleasesChunksUnmappedUnseen) {
  MakeRanks(1);
  for (size_t i = 0; i < 16; ++i) {
    test_cuda::Map(segment_ + i * kChunk, kChunk);
    SumInPlace(segment_ + i * kChunk, kChunk, 1);
    test_cuda::Unmap(segment_ + i * kChunk);
  }
  EXPECT_GE(Count(MessageKind::kUnmapChunks), 15);
}

}  // namespace virtual_ranges_test
}  // namespace mccs
