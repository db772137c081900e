// Buffers that the daemon cannot map (pools, managed and pinned memory, virtual memory that was not
// made to be shared): the work reads and writes a copy of them in memory that it can.
//
//   stream:  copy user → staging | write ready | wait done | copy staging → user
//
// Each (communicator, stream) has memory of its own, in which every staged side of a group has a
// piece. A later group of the same stream uses the same memory: the stream's own order keeps the
// two apart. Only what a call reads is copied in, and only what it writes is copied out.
#ifndef MCCS_SHIM_STAGING_H_
#define MCCS_SHIM_STAGING_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "shim/staging_pool.h"

namespace mccs::shim {

class Communicator;

// The sides of one call that go through staging; one without bytes does not.
struct StagedSides {
  struct Side {
    CUdeviceptr user = 0;
    uint64_t bytes = 0;
    uint64_t at = 0;  // where its piece begins in the staging memory
  };
  Side send;
  Side recv;
  Side scalar;              // what a reduction operator multiplies with
  bool one_piece = false;   // in place: recv's piece is send's
  bool keeps_recv = false;  // recv holds already what the call will write there

  bool any() const { return (send.bytes | recv.bytes | scalar.bytes) != 0; }
};

// What one communicator has borrowed. THREAD: under the communicator's submit lock.
class StagingMemory {
 public:
  StagingMemory(StagingPool& pool, const DeviceBinding& device) : pool_(pool), device_(device) {}

  // A block that the stream with this key works in: its own, one that is idle, or a new one, whose
  // size is a power of two. One that the stream has outgrown is not waited for; it serves others
  // when it is idle. `graph`: `key` names a capture, and the block is its graph's as long as this
  // lives; null elsewhere.
  struct Need {
    uint64_t key;
    uint64_t bytes;
    std::shared_ptr<CaptureLease> graph;
  };
  absl::StatusOr<StagingBlock*> Reserve(const Need& need);

  // Gives up all blocks that are idle and belong to no graph. REQUIRES: as StagingPool::Give.
  void GiveBack();
  // Gives up all: those of graphs when the graphs are gone. REQUIRES: likewise; nothing is borrowed
  // any more.
  void GiveBackAll();

  uint64_t bytes() const;

 private:
  bool IsFree(const StagingBlock& block) const;

  StagingPool& pool_;
  const DeviceBinding device_;
  std::vector<std::unique_ptr<StagingBlock>> blocks_;
};

// The staged calls of one group, over all its communicators. Its memory is kept from group to
// group. THREAD: its own.
class StagedGroup {
 public:
  struct Call {
    Communicator* comm;
    CUstream stream;
    unsigned long long capture;  // CUDA's id of the capture that the stream is part of; 0: none
    uint32_t operation;          // the caller's number for it
    uint32_t use;                // index into uses_, from Place on
    StagedSides sides;
  };

  void Add(const Call& call) { calls_.push_back(call); }
  bool empty() const { return calls_.empty(); }
  std::span<const Call> calls() const { return calls_; }
  void Clear();

  // Finds memory for every piece; enqueues nothing. REQUIRES: the submit locks of all communicators
  // are held, until CopyOut; captures have their leases.
  absl::Status Place();
  // Makes the record speak of the pieces. REQUIRES: Place was ok.
  void WritePlaces(const Call& call, wire::WorkRecord& record) const;

  // Enqueue the copies of one communicator's calls, each on its call's stream. REQUIRES: the
  // communicator's context is current.
  absl::Status CopyIn(const Communicator& comm) const;
  absl::Status CopyOut(const Communicator& comm) const;

 private:
  // What the calls of one communicator on one stream need together.
  struct Use {
    Communicator* comm;
    CUstream stream;
    StagingMemory::Need need;
    StagingBlock* block;
    wire::BufferRef ref;
  };

  uint32_t UseOf(const Call& call);
  absl::Status Copy(const Call& call, CUdeviceptr to, CUdeviceptr from, uint64_t bytes) const;

  std::vector<Call> calls_;
  std::vector<Use> uses_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_STAGING_H_
