// The interface of a test: its verdict, the other ranks, and resources that are released with it.
//
// A test is one function that every rank runs in its own thread, as the ranks of a job do, in one
// process or in many. It checks NCCL's behavior with the macros below. The verdict is sticky: after
// the first failure on a rank, checks are not evaluated, waits return at once, and the body runs to
// its end. Every wait ends at the test's deadline, or when another rank has failed.
//
// THREAD: the rank's own, except AbortCommunicators.
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
#include "conformance/resources.h"
#include "cuda_runtime.h"
#include "nccl.h"

// Checks. Each is an expression that is true if the check holds (and nothing failed before).
#define NCCL_RETURNS(test, expected, call) \
  ((test).ok() && (test).ExpectResult((expected), (call), #call))
#define NCCL_OK(test, call) ((test).ok() && (test).ExpectResult(ncclSuccess, (call), #call))
#define CUDA_OK(test, call) ((test).ok() && (test).ExpectCuda((call), #call))
#define EXPECT_THAT(test, condition, what) ((test).ok() && (test).Expect((condition), (what)))

namespace conformance {

using Location = std::source_location;

// Returns the enumerator's name, such as "ncclInvalidUsage", unlike ncclGetErrorString.
std::string ResultName(ncclResult_t result);

// The rank that runs a test; the same for all tests of a rank.
struct Self {
  int rank = 0;
  int size = 1;
  int device = 0;              // of this rank
  int local_rank = 0;          // among the ranks of its host
  int process = 0;             // index of its process in the job
  bool is_host_leader = true;  // the first rank of its host
  int visible_devices = 1;
  bool beyond_nccl = false;
};

class Test {
 public:
  using Clock = std::chrono::steady_clock;

  // `participants`: the ranks that run this test, in order.
  Test(const Self& self, std::vector<Self> participants, ControlLink* link, Communicators* comms,
       Clock::time_point deadline);
  // Opens the gates, aborts the remaining communicators, then frees everything.
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
  // Appends to a recorded failure.
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

  // Waits for the other participants.
  bool Barrier() { return !Exchange("").empty(); }
  // Returns each participant's contribution; empty on failure.
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
  // Creates a unique id on one rank and returns it on all.
  ncclUniqueId SharedId();

  // Waits until the condition holds, the deadline expires or another rank has failed.
  bool Until(const std::function<bool()>& condition, const std::string& what,
             const Location& where = Location::current());
  // Waits for all enqueued work; an error of the stream fails the test.
  bool Wait(cudaStream_t stream, const Location& where = Location::current());
  // Waits until the state of a (non-blocking) communicator has settled; checks that it is
  // `expected`.
  bool Settle(ncclComm_t comm, ncclResult_t expected = ncclSuccess,
              const Location& where = Location::current());
  // Checks that a stream is still busy after all unblocked work would have run.
  bool ExpectBusy(cudaStream_t stream, const std::string& why,
                  const Location& where = Location::current());

  // The communicator of all ranks, created at the first use and kept for later tests while none
  // fails. Tests that end or damage it create their own.
  // REQUIRES: all ranks call it.
  ncclComm_t World();
  // Creates a communicator of all ranks for this test only. `config` may be null.
  // REQUIRES: all ranks call it.
  ncclComm_t NewWorld(ncclConfig_t* config = nullptr);
  // Takes ownership: aborts the communicator at the end of the test if it still exists.
  ncclComm_t TakeOwnership(ncclComm_t comm);
  bool Destroy(ncclComm_t comm, const Location& where = Location::current());
  bool Abort(ncclComm_t comm, const Location& where = Location::current());

  cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking);
  DeviceBuffer NewBuffer(size_t bytes);
  std::byte* NewHostMemory(size_t bytes) { return resources_.NewHostMemory(bytes); }
  // Blocks later work on `stream` until the gate is opened.
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
  void Stop(const std::string& why);

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
