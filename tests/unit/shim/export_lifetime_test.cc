// When the daemon is told to release memory: before it is freed, at deregistration, after an unseen
// free, and at the end of a lease.
#include <atomic>
#include <chrono>
#include <thread>

#include "shim/daemon/daemon_client.h"
#include "shim/process/process.h"
#include "tests/unit/eventually.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace export_lifetime_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;

class ExportLifetime : public ShimTest {
 protected:
  ~ExportLifetime() override { unsetenv("MCCS_EXPORT_LEASE"); }

  void Sum(int* data) {
    ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess)
        << LastError();
    ASSERT_TRUE(test_cuda::Synchronize(nullptr));
  }
  int Registered() { return daemon_.CountOf(wire::MessageKind::kRegisterBuffer); }
  int Released() { return daemon_.CountOf(wire::MessageKind::kReleaseBuffer); }
  int Unmapped() { return daemon_.CountOf(wire::MessageKind::kUnmapChunks); }
  bool EventuallyReleased(int count) {
    return Reaches([&] { return Released(); }, count);
  }
  bool EventuallyUnmapped(int count) {
    return Reaches([&] { return Unmapped(); }, count);
  }
  template <typename Counter>
  static bool Reaches(Counter counter, int count) {
    return Eventually([&] { return counter() >= count; }) && counter() == count;
  }
  // Sends many messages, which wake the reader each time.
  void WakeTheReader() {
    for (int i = 0; i < 20; ++i) Sum(Buffer<int>({i}));
  }
  static void ReleaseRange(const void* memory) {
    shim::Process::ReleaseRange({reinterpret_cast<uintptr_t>(memory), 1});
  }
};

TEST_F(ExportLifetime, FreeReleasesTheExportOnceBeforehand) {
  MakeRanks(1);
  int* data = Buffer<int>({1});
  int* other = Buffer<int>({2});
  Sum(data);
  ReleaseRange(other);  // never exported
  EXPECT_EQ(Released(), 0);
  ReleaseRange(data);
  EXPECT_EQ(Released(), 1);
  ReleaseRange(data);
  EXPECT_EQ(Released(), 1);
  Sum(data);  // it was not actually freed
  EXPECT_EQ(Registered(), 2);
}

TEST_F(ExportLifetime, MemFreeReleasesTheExportFirst) {
  MakeRanks(1);
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 16), ncclSuccess);
  Sum(static_cast<int*>(memory));
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(Released(), 1);
}

TEST_F(ExportLifetime, FreeWaitsForPostedWork) {
  MakeRanks(1);
  int* data = Buffer<int>({5});
  daemon_.HoldRings(true);
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
  std::atomic<bool> free_may_go_on{false};
  std::thread program([&] {
    ReleaseRange(data);
    free_may_go_on = true;
  });
  while (Released() == 0) std::this_thread::yield();
  EXPECT_FALSE(free_may_go_on);
  daemon_.HoldRings(false);
  EXPECT_TRUE(test_cuda::Synchronize(nullptr));
  program.join();
  EXPECT_EQ(*data, 5);
}

TEST_F(ExportLifetime, SilentDaemonDelaysAFreeByTwoSeconds) {
  MakeRanks(1);
  int* data = Buffer<int>({1});
  Sum(data);
  daemon_.IgnoreMessages(wire::MessageKind::kReleaseBuffer);
  const auto start = steady_clock::now();
  ReleaseRange(data);
  EXPECT_GE(steady_clock::now() - start, milliseconds(1900));
  ReleaseRange(data);  // the daemon still maps the memory
  EXPECT_GE(steady_clock::now() - start, milliseconds(3900));
  EXPECT_EQ(Released(), 1) << "the release was requested already";
  EXPECT_LE(steady_clock::now() - start, seconds(10));
}

TEST_F(ExportLifetime, StoppedDaemonDelaysCallersBriefly) {
  auto client = shim::DaemonClient::Connect(daemon_.socket_path());
  ASSERT_TRUE(client.ok()) << client.status();
  daemon_.StopReading();
  const auto start = steady_clock::now();
  constexpr int kMoreThanTheSocketHolds = 100'000;
  absl::Status status;
  for (int i = 0; i < kMoreThanTheSocketHolds && status.ok(); ++i) {
    const auto request = (*client)->Send(wire::ReleaseBuffer{});
    if (request.ok()) (*client)->IgnoreReply(*request);
    status = request.status();
  }
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("the daemon did not read its socket for 1000 ms"));
  EXPECT_TRUE((*client)->dead());
  EXPECT_LE(steady_clock::now() - start, seconds(10));
}

TEST_F(ExportLifetime, DeadDaemonDelaysNothing) {
  MakeRanks(1);
  int* data = Buffer<int>({1});
  Sum(data);
  daemon_.Die();
  const auto start = steady_clock::now();
  ReleaseRange(data);
  EXPECT_LE(steady_clock::now() - start, milliseconds(1500));
}

TEST_F(ExportLifetime, DeregistrationReleasesUnlessRegisteredAgain) {
  MakeRanks(1);
  int* data = Buffer<int>({1, 2});
  void* whole = nullptr;
  ncclWindow_t part = nullptr;
  ASSERT_EQ(ncclCommRegister(comms_[0], data, 8, &whole), ncclSuccess);
  ASSERT_EQ(ncclCommWindowRegister(comms_[0], data + 1, 4, &part, 0), ncclSuccess);
  Sum(data);
  EXPECT_EQ(ncclCommDeregister(comms_[0], whole), ncclSuccess);
  EXPECT_EQ(Released(), 0);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], part), ncclSuccess);
  EXPECT_EQ(Released(), 1);
  Sum(data + 1);  // still allowed
  EXPECT_EQ(Registered(), 2);
}

// The addresses differ each time, so only CUDA's buffer ids reveal the frees.
TEST_F(ExportLifetime, DetectsUnseenFrees) {
  MakeRanks(1);
  constexpr int kBuffers = 100;
  std::vector<int*> pins;  // prevent reuse of the addresses
  for (int i = 0; i < kBuffers; ++i) {
    int* data = Buffer<int>({i});
    Sum(data);
    test_cuda::Free(data);
    pins.push_back(Buffer<int>({0}));
  }
  EXPECT_EQ(Registered(), kBuffers);
  EXPECT_GE(Released(), kBuffers - 2);
}

TEST_F(ExportLifetime, LeaseEndsUnusedExports) {
  setenv("MCCS_EXPORT_LEASE", "0.1", 1);
  MakeRanks(1);
  int* data = Buffer<int>({1});
  int* kept = Buffer<int>({1});
  void* handle = nullptr;
  ASSERT_EQ(ncclCommRegister(comms_[0], kept, 4, &handle), ncclSuccess);
  Sum(data);
  Sum(kept);
  EXPECT_TRUE(EventuallyReleased(1));
  EXPECT_EQ(Registered(), 2);
  Sum(data);
  Sum(kept);
  EXPECT_EQ(Registered(), 3);
  EXPECT_THAT(Read(data, 1), ElementsAre(1));
}

// The daemon ends a session that does not read its replies.
TEST_F(ExportLifetime, LimitsUnansweredReleases) {
  setenv("MCCS_EXPORT_LEASE", "0.3", 1);
  MakeRanks(1);
  daemon_.IgnoreMessages(wire::MessageKind::kReleaseBuffer);
  for (int i = 0; i < 200; ++i) Sum(Buffer<int>({i}));
  EXPECT_TRUE(EventuallyReleased(64));
  WakeTheReader();
  EXPECT_EQ(Released(), 64) << "without replies";
}

TEST_F(ExportLifetime, AllLeasesEnd) {
  setenv("MCCS_EXPORT_LEASE", "0.1", 1);
  MakeRanks(1);
  for (int i = 0; i < 200; ++i) Sum(Buffer<int>({i}));
  EXPECT_TRUE(EventuallyReleased(Registered()));
}

TEST_F(ExportLifetime, LimitsUnansweredReleasesOfVirtualMemory) {
  constexpr size_t kChunk = test_cuda::kGranularity;
  constexpr size_t kRuns = 200;
  setenv("MCCS_EXPORT_LEASE", "0.3", 1);
  MakeRanks(1);
  const auto use_all = [&, segment = test_cuda::Reserve(2 * kRuns * kChunk)](bool fresh) {
    for (size_t i = 0; i < kRuns; ++i) {
      std::byte* const chunk = segment + 2 * i * kChunk;
      if (fresh) test_cuda::Map(chunk, kChunk);
      Sum(reinterpret_cast<int*>(chunk));
    }
  };
  use_all(true);
  EXPECT_TRUE(EventuallyUnmapped(kRuns)) << "in several rounds";
  daemon_.IgnoreMessages(wire::MessageKind::kUnmapChunks);
  use_all(false);
  EXPECT_TRUE(EventuallyUnmapped(kRuns + 64));
  WakeTheReader();
  EXPECT_EQ(Unmapped(), kRuns + 64) << "without replies";
}

TEST_F(ExportLifetime, GraphPinsOnlyItsCallsBuffers) {
  constexpr size_t kChunk = test_cuda::kGranularity;
  setenv("MCCS_EXPORT_LEASE", "0.1", 1);
  MakeRanks(1);
  std::byte* const segment = test_cuda::Reserve(8 * kChunk);
  for (size_t i : {0, 1, 2, 5}) test_cuda::Map(segment + i * kChunk, kChunk);
  auto* const captured = reinterpret_cast<int*>(segment + kChunk);
  const CUstream stream = Stream();
  test_cuda::BeginCapture(stream);
  // All of chunk 1, and the beginning of chunk 2.
  ASSERT_EQ(ncclAllReduce(captured, captured, kChunk / sizeof(int) + 1, ncclInt, ncclSum, comms_[0],
                          stream),
            ncclSuccess)
      << LastError();
  const CUgraph graph = test_cuda::EndCapture(stream);
  for (size_t i : {0, 5}) Sum(reinterpret_cast<int*>(segment + i * kChunk));
  EXPECT_TRUE(EventuallyUnmapped(2)) << "chunks 0 and 5";
  Sum(Buffer<int>({1}));
  EXPECT_TRUE(EventuallyReleased(1)) << "its lease began after those of chunks 1 and 2";
  EXPECT_EQ(Unmapped(), 2);
  test_cuda::DestroyGraph(graph);
  EXPECT_TRUE(EventuallyUnmapped(3)) << "chunks 1 and 2, together";
}

TEST_F(ExportLifetime, CallInAnOpenGroupKeepsItsBuffers) {
  setenv("MCCS_EXPORT_LEASE", "0.05", 1);
  MakeRanks(1);
  int* data = Buffer<int>({1});
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
  // Several leases. The open group delays the end of all leases, so there is no event to wait for.
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_EQ(Released(), 0);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_TRUE(test_cuda::Synchronize(nullptr));
  EXPECT_TRUE(EventuallyReleased(1));
}

TEST_F(ExportLifetime, ExportsStayWithoutALease) {
  setenv("MCCS_EXPORT_LEASE", "0", 1);
  MakeRanks(1);
  Sum(Buffer<int>({1}));
  WakeTheReader();
  EXPECT_EQ(Released(), 0) << "the reader looks for expired leases whenever it wakes up";
}

TEST_F(ExportLifetime, RejectsAnInvalidLease) {
  setenv("MCCS_EXPORT_LEASE", "long", 1);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclInvalidArgument);
  EXPECT_THAT(LastError(), ::testing::HasSubstr("MCCS_EXPORT_LEASE"));
}

}  // namespace export_lifetime_test
}  // namespace mccs
