// What a test has in its hands: its verdict, the other ranks, and the resources that end with it.
//
// A test is one function that every rank runs in a thread of its own, as the ranks of a job do, be
// they in one process or in many. It states what NCCL must do with the macros below. The verdict is
// sticky: after the first failure on a rank every statement is passed over without being evaluated,
// every wait returns at once, and the body runs off its end. Every wait is bounded by the test's
// deadline and given up when another rank has failed.
//
// THREAD: the rank's own, but for AbortCommunicators.
#ifndef TESTS_CONFORMANCE_TEST_H_
#define TESTS_CONFORMANCE_TEST_H_

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "conformance/control_link.h"
#include "conformance/outcome.h"
#include "conformance/resources.h"
#include "cuda_runtime.h"
#include "nccl.h"

// Statements. Each is an expression that is true if it holds (and nothing failed before).
#define NCCL_RETURNS(test, expected, call) \
  ((test).ok() && (test).ExpectResult((expected), (call), #call))
#define NCCL_OK(test, call) ((test).ok() && (test).ExpectResult(ncclSuccess, (call), #call))
#define CUDA_OK(test, call) ((test).ok() && (test).ExpectCuda((call), #call))
#define EXPECT_THAT(test, condition, what) ((test).ok() && (test).Expect((condition), (what)))

namespace conformance {

using Location = std::source_location;

// "ncclInvalidUsage": as a program writes it, unlike ncclGetErrorString.
std::string ResultName(ncclResult_t result);

// Who runs a test, the same for all tests of a rank.
struct Self {
  int rank = 0;
  int size = 1;
  int device = 0;          // of this rank
  int local_rank = 0;      // among those of this host
  int process = 0;         // the position of its process in the job
  bool leads_host = true;  // the first rank of its host
  int visible_devices = 1;
  bool beyond_nccl = false;
};

class Test {
 public:
  using Clock = std::chrono::steady_clock;

  // `participants`: the ranks that run this test, in order.
  Test(const Self& self, std::vector<Self> participants, ControlLink* link, Communicators* comms,
       Clock::time_point deadline);
  // Opens the gates, aborts what communicators are left, then frees everything.
  ~Test();
  Test(const Test&) = delete;
  Test& operator=(const Test&) = delete;

  const Self& self() const { return self_; }
  int rank() const { return self_.rank; }
  int size() const { return self_.size; }
  bool is_root() const { return self_.rank == 0; }
  const std::vector<Self>& participants() const { return participants_; }

  // The verdict.
  bool ok() const { return outcome_ == Outcome::kPassed; }
  Outcome outcome() const { return outcome_; }
  const std::string& text() const { return text_; }
  void Fail(const std::string& text, const Location& where = Location::current());
  // More about a failure that has been recorded.
  void AddToFailure(const std::string& text) { text_ += text; }
  // REQUIRES: all ranks skip, or none.
  void Skip(const std::string& reason);
  bool Expect(bool condition, const std::string& what, const Location& where = Location::current());
  bool ExpectResult(ncclResult_t expected, ncclResult_t actual, const char* call,
                    const Location& where = Location::current());
  bool ExpectCuda(cudaError_t actual, const char* call,
                  const Location& where = Location::current());
  template <typename T, typename U>
  bool ExpectEqual(const T& expected, const U& actual, const std::string& what,
                   const Location& where = Location::current()) {
    if (!ok() || expected == static_cast<T>(actual)) return ok();
    Fail("expected " + what + " = " + Text(expected) + ", got " + Text(actual), where);
    return false;
  }

  // The other participants.
  bool Barrier() { return !Exchange("").empty(); }
  // What each participant brought; empty when it did not come about.
  std::vector<std::string> Exchange(const std::string& own);
  template <typename T>
  std::vector<T> ExchangeValues(const T& own) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::string bytes(reinterpret_cast<const char*>(&own), sizeof(own));
    std::vector<T> values(participants_.size(), own);
    std::vector<std::string> parts = Exchange(bytes);
    for (size_t i = 0; i < parts.size(); ++i) std::memcpy(&values[i], parts[i].data(), sizeof(T));
    return values;
  }
  // A new id, the same for all.
  ncclUniqueId SharedId();

  // Waiting, until the deadline or until another rank has failed.
  bool Until(const std::function<bool()>& condition, const std::string& what,
             const Location& where = Location::current());
  // Until all that was enqueued is done; an error of the stream fails the test.
  bool Wait(cudaStream_t stream, const Location& where = Location::current());
  // Until the communicator's state has settled (non-blocking ones); says that it is `expected`.
  bool Settle(ncclComm_t comm, ncclResult_t expected = ncclSuccess,
              const Location& where = Location::current());
  // That a stream is still busy after the time in which anything that may run would have run.
  bool ExpectBusy(cudaStream_t stream, const std::string& why,
                  const Location& where = Location::current());

  // The communicator of all ranks, made at the first use and kept for later tests as long as none
  // fails. Tests that end or fail it make one of their own.
  // REQUIRES: all ranks call it.
  ncclComm_t World();
  // A communicator of all ranks for this test alone. `config` may be null.
  // REQUIRES: all ranks call it.
  ncclComm_t NewWorld(ncclConfig_t* config = nullptr);
  // The test's own from here on: aborted at the end, unless it was ended before.
  ncclComm_t Own(ncclComm_t comm);
  bool Destroy(ncclComm_t comm, const Location& where = Location::current());
  bool Abort(ncclComm_t comm, const Location& where = Location::current());

  cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking);
  DeviceBuffer NewBuffer(size_t bytes);
  std::byte* NewHostMemory(size_t bytes) { return resources_.NewHostMemory(bytes); }
  // Holds back what is enqueued on `stream` after it.
  Gate* NewGate(cudaStream_t stream);

  Clock::time_point deadline() const { return deadline_; }

 private:
  template <typename T>
  static std::string Text(const T& value) {
    if constexpr (std::is_same_v<T, ncclResult_t>) {
      return ResultName(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      return std::to_string(value);
    } else {
      return std::string(value);
    }
  }
  void GiveUp(const std::string& why);

  const Self self_;
  const std::vector<Self> participants_;
  ControlLink* const link_;
  Communicators* const comms_;
  const Clock::time_point deadline_;
  Outcome outcome_ = Outcome::kPassed;
  std::string text_;
  Resources resources_;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_TEST_H_
