// Buffers that the daemon cannot map (memory of pools, managed and pinned memory, virtual memory
// that is not shareable): operations use a copy of them in memory that the daemon can map.
//
//   stream:  copy user → staging | write ready | wait done | copy staging → user
//
// Each (communicator, stream) has a block of staging memory, in which every staged side of a group
// has a piece. Later groups of the same stream reuse the block, ordered by the stream. Only what a
// call reads is copied in, and only what it writes is copied out.
#ifndef MCCS_SHIM_SUBMIT_STAGING_H_
#define MCCS_SHIM_SUBMIT_STAGING_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "shim/buffers/staging_pool.h"

namespace mccs::shim {

class Communicator;

// The staged sides of one call; a side with 0 bytes is not staged.
struct StagedSides {
  struct Side {
    CUdeviceptr user = 0;
    uint64_t bytes = 0;
    uint64_t at = 0;  // offset of its piece in the staging memory
  };
  Side send;
  Side recv;
  Side scalar;                  // the factor of a reduction operator
  bool in_place = false;        // in place: recv uses send's piece
  bool recv_prefilled = false;  // recv already contains what the call will write there

  bool any() const { return (send.bytes | recv.bytes | scalar.bytes) != 0; }
};

// The blocks of one communicator. THREAD: under the communicator's submit lock.
class StagingMemory {
 public:
  StagingMemory(StagingPool& pool, const DeviceBinding& device) : pool_(pool), device_(device) {}

  // A block for the stream with this key: its current one, an idle one, or a new one, whose size is
  // a power of two. When the stream needs a larger block, the smaller one is reused by others once
  // idle. `graph`: `key` is a capture's, and the block belongs to its graph while that lives; else
  // null.
  struct Need {
    uint64_t key;
    uint64_t bytes;
    std::shared_ptr<CaptureLease> graph;
  };
  // `taken`: blocks of the same group, whose copies are not enqueued yet.
  absl::StatusOr<StagingBlock*> Reserve(const Need& need, std::span<StagingBlock* const> taken);

  // Later work of the stream with this key begins after the copies that earlier groups of other
  // streams have enqueued. As StagingPool::OrderAfter.
  absl::Status OrderAfterCopies(CUstream stream, uint64_t key);

  // Returns all blocks that are idle and belong to no graph. REQUIRES: as StagingPool::Return.
  void ReturnIdleBlocks();
  // Returns all blocks: those of graphs when the graphs are destroyed. REQUIRES: as
  // StagingPool::Return; Reserve is not called any more.
  void ReturnAllBlocks();

  uint64_t bytes() const;
  bool empty() const { return blocks_.empty(); }

 private:
  bool IsFree(const StagingBlock& block) const;

  StagingPool& pool_;
  const DeviceBinding device_;
  std::vector<std::unique_ptr<StagingBlock>> blocks_;
};

// The staged calls of one group, over all its communicators. Reuses its memory from group to group.
// THREAD: owned by its thread.
class StagedGroup {
 public:
  struct Call {
    Communicator* comm;
    CUstream stream;
    unsigned long long capture;  // CUDA's id of the stream's capture; 0: none
    uint32_t operation;          // the caller's number for it
    uint32_t use;                // index into uses_, from Place on
    StagedSides sides;
  };

  void Add(const Call& call) { calls_.push_back(call); }
  bool empty() const { return calls_.empty(); }
  std::span<const Call> calls() const { return calls_; }
  void Clear();

  // Allocates memory for every piece; enqueues nothing. REQUIRES: the submit locks of all
  // communicators are held until CopyOut; captures have their leases.
  absl::Status Place();
  // Writes the pieces' places into the record. REQUIRES: Place was ok.
  void WritePlaces(const Call& call, wire::WorkRecord& record) const;

  // Whether a call of the communicator reads from staging memory.
  bool CopiesIn(const Communicator& comm) const;
  // Enqueue the copies of one communicator's calls, each on its call's stream. REQUIRES: the
  // communicator's context is current.
  absl::Status CopyIn(const Communicator& comm) const;
  absl::Status CopyOut(const Communicator& comm) const;

 private:
  // The needs of the calls of one communicator on one stream.
  struct Use {
    Communicator* comm;
    CUstream stream;
    StagingMemory::Need need;
    StagingBlock* block;
    wire::BufferRef ref;
    bool copies_in = false;
  };

  uint32_t UseOf(const Call& call);
  absl::Status Copy(const Call& call, CUdeviceptr to, CUdeviceptr from, uint64_t bytes) const;
  // The block is idle after the copies enqueued so far.
  static absl::Status RecordIdle(const Use& use);

  std::vector<Call> calls_;
  std::vector<Use> uses_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_STAGING_H_
