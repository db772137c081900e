// What the random calls are made on: communicators that may come to harm, streams and memory, and
// the one communicator of the process that nothing may touch.
#ifndef MCCS_TESTS_FUZZ_VICTIMS_H_
#define MCCS_TESTS_FUZZ_VICTIMS_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/fuzz_run.h"

namespace mccs {

inline constexpr int kBuffers = 4;
inline constexpr size_t kBufferBytes = 256;
inline constexpr int kMaxDepth = 3;  // of groups

// THREAD: one.
class Victims {
 public:
  explicit Victims(FuzzRun& run);

  // ---- Any arguments: right ones, or wrong ones, in some mixture ----

  uint64_t Below(uint64_t bound) { return run_.Below(bound); }
  bool OneIn(uint64_t bound) { return Below(bound) == 0; }
  uint64_t AnyBits() { return run_.random()(); }
  int AnyInt();
  size_t AnyCount();
  ncclDataType_t AnyType() { return static_cast<ncclDataType_t>(AnyInt()); }
  ncclRedOp_t AnyOperator() {
    return OneIn(3) ? user_operator : static_cast<ncclRedOp_t>(AnyInt());
  }
  // NULL, this program's, on the device, of ncclMemAlloc, freed, or anywhere.
  void* AnyMemory();
  ncclComm_t AnyComm();
  void* AnyRegistration();
  // As only CUDA could tell a wrong one, a right one.
  cudaStream_t AnyStream() { return streams_[Below(streams_.size())]; }
  // NULL, or the place for an answer: another one would be the program's own memory.
  template <typename Answer>
  Answer* Place(Answer* answer) {
    return OneIn(4) ? nullptr : answer;
  }

  // ---- The life of the victims ----

  // Whether it may be blocking: those of ncclCommInitAll are.
  bool Blocks(ncclComm_t comm) const;
  // Whether the calls on it may return only when its other ranks have made theirs.
  bool Waits(ncclComm_t comm) const;
  bool alone() const { return comms_.size() == 1; }
  ncclComm_t first() const { return comms_[0]; }
  // Where a call, or the end of its group, may write the handles of communicators that it makes:
  // victims, too. Good until Renew.
  ncclComm_t* NewPlaces(size_t count = 1);
  // By ncclMemFree, with Renew. Until then calls use it, where it is memory at all.
  void FreeLater(void* memory) { to_free_.push_back(memory); }
  void GroupStarted() { ++depth_; }
  void GroupEnded() { depth_ -= depth_ > 0 ? 1 : 0; }
  int depth() const { return depth_; }
  // Ends all victims and brings new ones: one rank, or two of a non-blocking communicator.
  void Renew();
  void EndGroups();
  // Whether the streams come to their end, and the communicator that nothing touched works.
  bool AllIsWell();

  ncclRedOp_t user_operator = ncclSum;
  std::vector<void*> registrations;
  // Some of a victim's work waits for signals, which may never come: only an abort ends it.
  bool signals_awaited = false;

 private:
  void EndAll();
  bool OtherWorks();
  bool IsOther(ncclComm_t comm) const { return comm == other_[0] || comm == other_[1]; }

  FuzzRun& run_;
  ncclComm_t other_[2] = {};
  std::vector<int*> other_data_;  // of each device
  std::vector<ncclComm_t> comms_;
  std::vector<std::vector<ncclComm_t>> offspring_;  // by call
  ncclComm_t dead_ = nullptr;
  bool blocking_ = true;
  std::vector<std::byte*> buffers_;
  std::byte* freed_ = nullptr;
  std::vector<void*> to_free_;
  std::vector<cudaStream_t> streams_;
  int depth_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_VICTIMS_H_
