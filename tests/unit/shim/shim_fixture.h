// A test program that calls NCCL's functions with the emulated CUDA and a fake daemon.
#ifndef MCCS_TESTS_UNIT_SHIM_SHIM_FIXTURE_H_
#define MCCS_TESTS_UNIT_SHIM_SHIM_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/eventually.h"
#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/test_cuda.h"

namespace mccs {

inline std::string LastError(ncclComm_t comm = nullptr) { return ncclGetLastError(comm); }

// The thread sanitizer cannot follow a child that starts threads.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

class ShimTest : public ::testing::Test {
 protected:
  ShimTest() {
    for (const char* name : {"NCCL_COMM_ID", "NCCL_COMM_BLOCKING", "NCCL_MULTI_RANK_GPU_ENABLE",
                             "MCCS_INIT_TIMEOUT", "NCCL_DEBUG"}) {
      unsetenv(name);
    }
    setenv("MCCS_SOCKET", daemon_.socket_path().c_str(), 1);
  }

  // The shim's process state outlives a test: it must notice that the daemon has changed.
  ~ShimTest() override {
    for (ncclComm_t comm : comms_) ncclCommAbort(comm);
    daemon_.Die();
    ncclUniqueId id;
    do {
      EXPECT_NE(ncclGetUniqueId(&id), ncclSuccess);
    } while (LastError().find("no MCCS daemon at") == std::string::npos);
    test_cuda::Reset();
  }

  // `ranks` ranks in this process, rank r on device r.
  void MakeRanks(int ranks) {
    comms_.resize(static_cast<size_t>(ranks));
    ASSERT_EQ(ncclCommInitAll(comms_.data(), ranks, nullptr), ncclSuccess) << LastError();
  }

  void MakeRanksOnOneGpu(int ranks) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    comms_.resize(static_cast<size_t>(ranks));
    ncclGroupStart();
    for (int r = 0; r < ranks; ++r) ncclCommInitRank(&comms_[static_cast<size_t>(r)], ranks, id, r);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  }

  template <typename Element>
  static Element* Buffer(const std::vector<Element>& values) {
    auto* memory = static_cast<Element*>(test_cuda::Alloc(values.size() * sizeof(Element)));
    std::copy(values.begin(), values.end(), memory);
    return memory;
  }
  template <typename Element>
  static std::vector<Element> Read(const Element* memory, size_t count) {
    return {memory, memory + count};
  }

  static CUstream Stream() { return test_cuda::MakeStream(); }

  static ncclResult_t AsyncError(ncclComm_t comm) {
    ncclResult_t result = ncclNumResults;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &result), ncclSuccess);
    return result;
  }
  // Waits until the communicator's call has succeeded or failed.
  static ncclResult_t Settle(ncclComm_t comm) {
    ncclResult_t result = ncclInProgress;
    EXPECT_TRUE(Eventually([&] { return (result = AsyncError(comm)) != ncclInProgress; }));
    return result;
  }
  void WaitFor(wire::MessageKind kind, int count) {
    EXPECT_TRUE(Eventually([&] { return daemon_.CountOf(kind) >= count; }));
  }

  FakeDaemon daemon_;
  std::vector<ncclComm_t> comms_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_SHIM_SHIM_FIXTURE_H_
