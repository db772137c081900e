// Resumable kernels as a program launches them: words that another process writes, graphs, blocking
// launches, and the end of the process.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "emulation/include/mccs_emulation_kernel.h"
#include "proto/fence_page.h"
#include "tests/unit/eventually.h"

namespace runtime_kernels_test {

using mccs::Eventually;
using mccs::wire::FenceLine;
using mccs::wire::FencePageHeader;
using mccs::wire::SignalFence;

// ---- A kernel that exchanges words with a peer -------------------------------------------------

constexpr char kExchange[] = "_Z8exchangeP9FenceLineS0_m";

std::atomic<int> g_begun{0};
std::atomic<int> g_advanced{0};
std::atomic<int> g_ended{0};

// Publishes the next value of `own` and waits until `other` has reached it, `rounds` times. The
// values of both lines continue from run to run.
struct Exchange {
  FenceLine* own;
  FenceLine* other;
  uint64_t rounds;
  bool published = false;
};

void* BeginExchange(const MccsEmulatedLaunch*, void* const* arguments) {
  ++g_begun;
  return new Exchange{*static_cast<FenceLine**>(arguments[0]),
                      *static_cast<FenceLine**>(arguments[1]),
                      *static_cast<uint64_t*>(arguments[2])};
}

int AdvanceExchange(void* run, MccsEmulatedWait* wait) {
  auto& exchange = *static_cast<Exchange*>(run);
  ++g_advanced;
  while (exchange.rounds > 0) {
    if (!exchange.published) SignalFence(*exchange.own, exchange.own->value.load() + 1);
    exchange.published = true;
    const uint64_t wanted = exchange.own->value.load();
    if (exchange.other->value.load(std::memory_order_acquire) < wanted) {
      *wait = {reinterpret_cast<const uint64_t*>(&exchange.other->value), wanted};
      return MCCS_EMULATED_WAITING;
    }
    exchange.published = false;
    --exchange.rounds;
  }
  return MCCS_EMULATED_FINISHED;
}

void EndExchange(void* run) {
  ++g_ended;
  delete static_cast<Exchange*>(run);
}

// Answers each value of `asked` in `answer`, until `last`.
void Answer(FenceLine& asked, FenceLine& answer, uint64_t last) {
  for (uint64_t value = 1; value <= last; ++value) {
    while (asked.value.load(std::memory_order_acquire) < value) sched_yield();
    SignalFence(answer, value);
  }
}

// A page with fence lines, mapped twice: CUDA knows one mapping, the peer uses the other.
struct FencePage {
  FencePage() {
    const int fd = memfd_create("fences", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, kBytes), 0);
    here = Map(fd);
    there = Map(fd);
    close(fd);
    *reinterpret_cast<FencePageHeader*>(here) = {mccs::wire::kFencePageMagic, kBytes};
    EXPECT_EQ(cudaHostRegister(here, kBytes, cudaHostRegisterMapped), cudaSuccess);
  }
  ~FencePage() {
    EXPECT_EQ(cudaHostUnregister(here), cudaSuccess);
    munmap(here, kBytes);
    munmap(there, kBytes);
  }
  static FenceLine* Map(int fd) {
    return static_cast<FenceLine*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }

  static constexpr size_t kBytes = 4096;
  FenceLine* here;  // line 0 is the header
  FenceLine* there;
};

class RuntimeKernels : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    Register(0);
    ASSERT_EQ(cuModuleGetFunction(&function_, nullptr, kExchange), CUDA_SUCCESS);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    g_begun = g_advanced = g_ended = 0;
  }
  void TearDown() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  static void Register(uint32_t blocking) {
    const uint32_t bytes[] = {sizeof(FenceLine*), sizeof(FenceLine*), sizeof(uint64_t)};
    const MccsEmulatedResumableKernel kernel{sizeof(MccsEmulatedResumableKernel),
                                             kExchange,
                                             BeginExchange,
                                             AdvanceExchange,
                                             EndExchange,
                                             3,
                                             bytes,
                                             blocking};
    ASSERT_EQ(mccsEmulationRegisterResumableKernel(&kernel), 0);
  }
  // Launches an exchange of line `own` with the next one.
  void Launch(cudaStream_t stream, FencePage& page, size_t own, uint64_t rounds) {
    FenceLine* lines[] = {page.here + own, page.here + own + 1};
    void* arguments[] = {&lines[0], &lines[1], &rounds};
    ASSERT_EQ(cuLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
              CUDA_SUCCESS);
  }

  CUfunction function_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_F(RuntimeKernels, AnotherProcessAdvancesTheWords) {
  constexpr uint64_t kRounds = 2000;
  FencePage page;
  const pid_t peer = fork();
  if (peer == 0) {
    Answer(page.there[1], page.there[2], kRounds);
    _exit(0);
  }
  Launch(stream_, page, 1, kRounds);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(page.here[2].value.load(), kRounds);
  EXPECT_EQ(page.here[2].sleepers.load(), 0u);
  int status = 0;
  EXPECT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_EQ(g_begun, 1);
  EXPECT_EQ(g_ended, 1);
}

TEST_F(RuntimeKernels, WorkBehindWaitsAndQueriesSayNotReady) {
  FencePage page;
  int* value = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&value), sizeof(int), 1), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  *value = 0;
  Launch(stream_, page, 1, 1);
  // Before the work behind the kernel, which blocks a shared hardware queue, as on a GPU.
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  Launch(other, page, 3, 0);  // waits for nothing
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(value, 1, sizeof(int), stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(*static_cast<volatile int*>(value), 0);
  SignalFence(page.there[2], 1);
  EXPECT_TRUE(Eventually([&] { return cudaEventQuery(event) == cudaSuccess; }));
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*value, 0x01010101);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaFree(value), cudaSuccess);
}

TEST_F(RuntimeKernels, EachReplayOfAGraphIsARunOfItsOwn) {
  constexpr int kReplays = 1000;
  constexpr uint64_t kRounds = 2;
  FencePage page;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  Launch(stream_, page, 1, kRounds);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(g_begun, 0);
  std::thread peer([&] { Answer(page.there[1], page.there[2], kRounds * kReplays); });
  for (int i = 0; i < kReplays; ++i) {
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    if (i % 7 == 0) {
      ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    }
  }
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  peer.join();
  EXPECT_EQ(g_begun, kReplays);
  EXPECT_EQ(g_ended, kReplays);
  EXPECT_EQ(page.here[2].value.load(), kRounds * kReplays);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// Two branches of one graph that need each other.
TEST_F(RuntimeKernels, BranchesOfAGraphRunAtOnce) {
  FencePage page;
  FenceLine* lines[] = {page.here + 1, page.here + 2};
  uint64_t rounds = 10;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  for (size_t own = 0; own < 2; ++own) {
    void* arguments[] = {&lines[own], &lines[1 - own], &rounds};
    cudaKernelNodeParams params{};
    params.func = function_;
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    cudaGraphNode_t node = nullptr;
    ASSERT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params), cudaSuccess);
  }
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(g_ended, 40);
  EXPECT_EQ(lines[0]->value.load(), 200u);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(RuntimeKernels, ABlockingLaunchReturnsAtItsEnd) {
  FencePage page;
  Register(1);
  std::thread peer([&] { Answer(page.there[1], page.there[2], 3); });
  Launch(stream_, page, 1, 3);
  EXPECT_EQ(g_ended, 1);
  peer.join();
}

TEST_F(RuntimeKernels, MalformedDescriptionsAreRejected) {
  const MccsEmulatedResumableKernel good{sizeof(MccsEmulatedResumableKernel),
                                         "_Z5otherv",
                                         BeginExchange,
                                         AdvanceExchange,
                                         EndExchange,
                                         0,
                                         nullptr,
                                         0};
  EXPECT_EQ(mccsEmulationRegisterResumableKernel(&good), 0);
  std::vector<MccsEmulatedResumableKernel> bad(6, good);
  bad[0].struct_bytes = sizeof(MccsEmulatedKernel);
  bad[1].name = nullptr;
  bad[2].begin = nullptr;
  bad[3].advance = nullptr;
  bad[4].end = nullptr;
  bad[5].argument_count = 1;  // without sizes
  for (const auto& kernel : bad) EXPECT_EQ(mccsEmulationRegisterResumableKernel(&kernel), -1);
  EXPECT_EQ(mccsEmulationRegisterResumableKernel(nullptr), -1);
}

// The exit of a process does not wait for a kernel that waits forever.
TEST_F(RuntimeKernels, AWaitingKernelDoesNotBlockTheExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        auto* const page = new FencePage;
        Launch(stream_, *page, 1, 1);
        const bool began = Eventually([] { return g_advanced == 1; });
        std::exit(began ? 37 : 1);
      },
      testing::ExitedWithCode(37), "");
}

// A child of a process that used CUDA runs none of its kernels.
TEST_F(RuntimeKernels, NoKernelContinuesInAForkedChild) {
  FencePage page;
  Launch(stream_, page, 1, 1);
  ASSERT_TRUE(Eventually([] { return g_advanced == 1; }));
  const pid_t child = fork();
  if (child == 0) {
    const bool fails = cuStreamQuery(stream_) == CUDA_ERROR_NOT_INITIALIZED;
    SignalFence(page.there[2], 1);
    for (int i = 0; i < 1000; ++i) sched_yield();
    _exit(fails && g_advanced == 1 && g_ended == 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << "the child has written the word";
  EXPECT_EQ(g_ended, 1);
}

}  // namespace runtime_kernels_test
