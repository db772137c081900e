// Targets of the random calls: communicators that may fail, streams and memory. Also one
// communicator of the process that no random call uses.
#ifndef MCCS_TESTS_FUZZ_FUZZ_TARGETS_H_
#define MCCS_TESTS_FUZZ_FUZZ_TARGETS_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/fuzz_run.h"

namespace mccs {

inline constexpr int kBuffers = 4;
inline constexpr size_t kBufferBytes = 256;
inline constexpr int kMaxDepth = 3;  // nesting of groups

// THREAD: one.
class FuzzTargets {
 public:
  explicit FuzzTargets(FuzzRun& run);

  // ---- Random arguments: a mixture of valid and invalid ones ----

  uint64_t Below(uint64_t bound) { return run_.Below(bound); }
  bool OneIn(uint64_t bound) { return Below(bound) == 0; }
  uint64_t AnyBits() { return run_.random()(); }
  int AnyInt();
  size_t AnyCount();
  ncclDataType_t AnyType() { return static_cast<ncclDataType_t>(AnyInt()); }
  ncclRedOp_t AnyOperator() {
    return OneIn(3) ? user_operator : static_cast<ncclRedOp_t>(AnyInt());
  }
  // NULL, host memory of this program, device memory, memory of ncclMemAlloc, freed, or arbitrary.
  void* AnyMemory();
  ncclComm_t AnyComm();
  void* AnyRegistration();
  // Always valid: only CUDA could detect an invalid one.
  cudaStream_t AnyStream() { return streams_[Below(streams_.size())]; }
  // NULL or the output pointer: an arbitrary pointer would overwrite the program's own memory.
  template <typename Answer>
  Answer* OutputPointer(Answer* answer) {
    return OneIn(4) ? nullptr : answer;
  }

  // ---- Life cycle of the targets ----

  // Whether the communicator may be blocking: those of ncclCommInitAll are.
  bool MayBlock(ncclComm_t comm) const;
  // Whether a call on it may block until its other ranks make the matching call.
  bool WaitsForPeers(ncclComm_t comm) const;
  bool alone() const { return comms_.size() == 1; }
  ncclComm_t first() const { return comms_[0]; }
  // Returns memory into which a call, or the end of its group, may write handles of new
  // communicators, which become targets, too. Valid until Recreate.
  ncclComm_t* NewHandles(size_t count = 1);
  // Recreate frees it by ncclMemFree. Until then calls use it if it is valid memory.
  void FreeLater(void* memory) { to_free_.push_back(memory); }
  void GroupStarted() { ++depth_; }
  void GroupEnded() { depth_ -= depth_ > 0 ? 1 : 0; }
  int depth() const { return depth_; }
  // Ends all targets and creates new ones: one rank, or two of a non-blocking communicator.
  void Recreate();
  void EndGroups();
  // Returns whether the streams finish and the unused communicator works.
  bool IsHealthy();

  ncclRedOp_t user_operator = ncclSum;
  std::vector<void*> registrations;
  // Some of a target's work waits for signals, which may never arrive: only an abort ends it.
  bool signals_awaited = false;

 private:
  void EndAll();
  bool UnusedCommWorks();
  bool IsUnusedComm(ncclComm_t comm) const {
    return comm == unused_comms_[0] || comm == unused_comms_[1];
  }

  FuzzRun& run_;
  ncclComm_t unused_comms_[2] = {};
  std::vector<int*> unused_comm_data_;  // of each device
  std::vector<ncclComm_t> comms_;
  std::vector<std::vector<ncclComm_t>> derived_comms_;  // by call
  ncclComm_t dead_ = nullptr;
  bool blocking_ = true;
  std::vector<std::byte*> buffers_;
  std::byte* freed_ = nullptr;
  std::vector<void*> to_free_;
  std::vector<cudaStream_t> streams_;
  int depth_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_FUZZ_TARGETS_H_
