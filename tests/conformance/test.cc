#include "conformance/test.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

namespace conformance {
namespace {

constexpr auto kShortestPause = std::chrono::microseconds(20);
constexpr auto kLongestPause = std::chrono::milliseconds(2);
// Long enough for unblocked work to run, also on a loaded machine.
constexpr auto kBusyFor = std::chrono::milliseconds(60);

constexpr int kDeepestGroup = 16;

std::string At(const Location& where) {
  const std::string_view path = where.file_name();
  return " (" + std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line()) +
         ")";
}

// A body that ended early may have left groups open; their calls must not be posted.
void LeaveGroups() {
  // An invalid call makes an open group fail.
  ncclAllReduce(nullptr, nullptr, 1, ncclInt8, ncclSum, nullptr, nullptr);
  for (int depth = 0; depth < kDeepestGroup && ncclGroupEnd() != ncclInvalidUsage; ++depth) {
  }
}

}  // namespace

std::string ResultName(ncclResult_t result) {
  constexpr std::array kNames = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                 "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                 "ncclRemoteError",   "ncclInProgress",         "ncclTimeout"};
  const auto index = static_cast<size_t>(result);
  return index < kNames.size() ? kNames[index] : "ncclResult_t " + std::to_string(result);
}

Test::Test(const Self& self, std::vector<Self> participants, ControlLink* link,
           Communicators* comms, Clock::time_point deadline)
    : self_(self),
      participants_(std::move(participants)),
      link_(link),
      comms_(comms),
      deadline_(deadline),
      resources_(self.device) {
  cudaSetDevice(self_.device);
}

Test::~Test() {
  resources_.OpenGates();
  if (!ok()) LeaveGroups();
  const bool damaged = outcome_ == Outcome::kFailed || outcome_ == Outcome::kStopped;
  comms_->AbortAll(/*with_world=*/damaged);
}

void Test::Fail(const std::string& text, const Location& where) {
  if (!ok()) return;
  outcome_ = Outcome::kFailed;
  text_ = text + At(where);
  std::replace(text_.begin(), text_.end(), '\n', ' ');
}

void Test::Skip(const std::string& reason) {
  if (!ok()) return;
  outcome_ = Outcome::kSkipped;
  text_ = reason;
}

void Test::Stop(const std::string& why) {
  if (!ok()) return;
  outcome_ = Outcome::kStopped;
  text_ = why;
}

bool Test::Expect(bool condition, const std::string& what, const Location& where) {
  if (!condition) Fail("expected " + what, where);
  return ok();
}

bool Test::ExpectResult(ncclResult_t expected, ncclResult_t actual, const char* call,
                        const Location& where) {
  if (actual == expected) return ok();
  std::string text =
      "expected " + ResultName(expected) + " from " + call + ", got " + ResultName(actual);
  const char* last = ncclGetLastError(nullptr);
  if (actual != ncclSuccess && last != nullptr && *last != '\0') {
    text += std::string(": ") + last;
  }
  Fail(text, where);
  return false;
}

bool Test::ExpectCuda(cudaError_t actual, const char* call, const Location& where) {
  if (actual == cudaSuccess) return ok();
  Fail(std::string("expected cudaSuccess from ") + call + ", got " + cudaGetErrorName(actual),
       where);
  return false;
}

std::vector<std::string> Test::Exchange(const std::string& own) {
  if (!ok()) return {};
  std::string trouble;
  auto parts = link_->Exchange(own, static_cast<int>(participants_.size()), deadline_, &trouble);
  if (!parts) {
    if (trouble.starts_with("timed out")) {
      Fail("exchange with the other ranks failed: " + trouble);
    } else {
      Stop(trouble);
    }
    return {};
  }
  return *parts;
}

ncclUniqueId Test::SharedId() {
  ncclUniqueId id{};
  if (ok() && self_.rank == participants_.front().rank) NCCL_OK(*this, ncclGetUniqueId(&id));
  return ExchangeValues(id).front();
}

bool Test::Until(const std::function<bool()>& condition, const std::string& what,
                 const Location& where) {
  auto pause = std::chrono::duration_cast<std::chrono::microseconds>(kShortestPause);
  while (ok() && !condition()) {
    if (!ok()) break;
    if (!link_->PeerFailure().empty()) {
      Stop("stopped waiting for " + what + ": " + link_->PeerFailure());
    } else if (Clock::now() > deadline_) {
      Fail("timed out waiting for " + what, where);
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min<std::chrono::microseconds>(pause * 2, kLongestPause);
    }
  }
  return ok();
}

bool Test::Wait(cudaStream_t stream, const Location& where) {
  const auto done = [&] {
    cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return true;
    if (state != cudaErrorNotReady) ExpectCuda(state, "cudaStreamQuery", where);
    return false;
  };
  return Until(done, "a stream's work to end", where);
}

bool Test::Settle(ncclComm_t comm, ncclResult_t expected, const Location& where) {
  ncclResult_t state = ncclInProgress;
  const auto settled = [&] {
    ExpectResult(ncclSuccess, ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", where);
    return state != ncclInProgress;
  };
  if (!Until(settled, "a communicator to leave ncclInProgress", where)) return false;
  if (state == expected) return true;
  const char* last = ncclGetLastError(comm);
  Fail("expected the communicator's state " + ResultName(expected) + ", got " + ResultName(state) +
           ": " + (last == nullptr ? "" : last),
       where);
  return false;
}

bool Test::ExpectBusy(cudaStream_t stream, const std::string& why, const Location& where) {
  for (const auto end = Clock::now() + kBusyFor; ok() && Clock::now() < end;) {
    cudaError_t state = cudaStreamQuery(stream);
    Expect(state == cudaErrorNotReady, "the stream to be busy: " + why, where);
    std::this_thread::sleep_for(kLongestPause);
  }
  return ok();
}

ncclComm_t Test::World() {
  if (!ok()) return nullptr;
  // Either all ranks keep their communicator or none does: a failed test ends it on all ranks.
  if (comms_->world() != nullptr) return comms_->world();
  const ncclUniqueId id = SharedId();
  ncclComm_t comm = nullptr;
  NCCL_OK(*this, ncclCommInitRank(&comm, self_.size, id, self_.rank));
  comms_->SetWorld(comm);
  return comm;
}

ncclComm_t Test::NewWorld(ncclConfig_t* config) {
  if (!ok()) return nullptr;
  const ncclUniqueId id = SharedId();
  ncclComm_t comm = nullptr;
  NCCL_OK(*this, ncclCommInitRankConfig(&comm, self_.size, id, self_.rank, config));
  return TakeOwnership(comm);
}

ncclComm_t Test::TakeOwnership(ncclComm_t comm) {
  if (comm != nullptr) comms_->Add(comm);
  return comm;
}

bool Test::Destroy(ncclComm_t comm, const Location& where) {
  if (!ok()) return false;
  comms_->Remove(comm);
  return ExpectResult(ncclSuccess, ncclCommDestroy(comm), "ncclCommDestroy", where);
}

bool Test::Abort(ncclComm_t comm, const Location& where) {
  if (!ok()) return false;
  comms_->Remove(comm);
  return ExpectResult(ncclSuccess, ncclCommAbort(comm), "ncclCommAbort", where);
}

cudaStream_t Test::NewStream(unsigned flags) {
  if (!ok()) return nullptr;
  cudaStream_t stream = resources_.NewStream(flags);
  Expect(stream != nullptr, "cudaStreamCreateWithFlags to create a stream");
  return stream;
}

DeviceBuffer Test::NewBuffer(size_t bytes) {
  if (!ok()) return {};
  DeviceBuffer buffer = resources_.NewBuffer(bytes);
  Expect(buffer.data != nullptr, "cudaMalloc to allocate " + std::to_string(bytes) + " bytes");
  return buffer;
}

Gate* Test::NewGate(cudaStream_t stream) {
  Gate* gate = resources_.NewGate();
  CUDA_OK(*this, gate->Block(stream));
  return gate;
}

}  // namespace conformance
