// Hands the work of one group over: the hot path.
//
// All "ready" writes of all communicators and streams are enqueued first, then all records go into
// the rings, and only then the streams are made to wait for "done". In any other order two ranks on
// one stream, or two threads' groups, block each other: a stream would wait for an operation whose
// other rank becomes ready behind that wait.
//
// What is captured into a CUDA graph is told to the daemon in place of the ring (captured_work.h),
// and the same order of writes and waits goes into the graph.
#ifndef MCCS_SHIM_SUBMIT_H_
#define MCCS_SHIM_SUBMIT_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "shim/handle_table.h"

namespace mccs::shim {

// The operations of one group, in the order of the calls. Its memory is kept from group to group:
// in steady state nothing is allocated.
// THREAD: its own.
class GroupWork {
 public:
  // `record` lacks sequence, flags and ready fence, and the places of what is staged; they are
  // filled in by Submit. kFailedPrecondition: of the streams that this group uses with the
  // communicator, not all are part of one and the same capture, or not captured.
  absl::Status Add(CommRef comm, CUstream stream, const wire::WorkRecord& record,
                   const StagedSides& staged);

  // Returns when all is handed over: at once, unless a ring is full, or CUDA_LAUNCH_BLOCKING asked
  // to wait for the streams. Errors: the first that was
  // met. Where one communicator is broken, the others' work is handed over all the same.
  absl::Status Submit();

  // Microseconds that the operations would take: those of one communicator one after the other,
  // communicators side by side. A round trip to the daemon for each.
  absl::StatusOr<double> EstimateUs();

  void Clear();

 private:
  static constexpr uint32_t kEnd = 0xffffffff;

  struct Operation {
    CUstream stream;
    uint32_t next;  // of the same communicator, or kEnd
    wire::WorkRecord record;
  };
  struct StreamUse {
    CUstream stream;
    uint32_t slot;  // a captured one where the batch is captured
    uint64_t value;
  };
  static CapturedPlace PlaceOf(const StreamUse& use) {
    return {use.slot, static_cast<uint32_t>(use.value)};
  }
  // What one communicator has in this group.
  struct Batch {
    CommRef comm;
    uint32_t first;
    uint32_t last;
    absl::InlinedVector<StreamUse, 2> streams;
    unsigned long long capture;           // CUDA's id; 0: not captured
    std::shared_ptr<CaptureLease> lease;  // likewise null, and before OpenLease
    // While records are written:
    uint32_t next_fence;  // index into `streams`; 0 stands for the operations' own slot
    uint32_t next_operation;
    uint32_t unposted;  // calls that are counted as such
    uint64_t last_sequence;
    bool broken;
  };

  absl::StatusOr<Batch*> BatchFor(CommRef comm, CUstream stream);
  Batch* FindBatch(const Communicator* comm);
  static absl::Status CheckCapture(const Batch& batch, CUstream stream);
  void Lock();
  void Unlock();
  absl::Status CheckAll();
  // What a rank sends to itself must be received in the same group: nothing else could end it.
  absl::Status CheckSelfMessages(const Batch& batch) const;
  // Before anything is enqueued: memory for what has to be staged.
  absl::Status PlaceStaged();
  // What the graph holds of a captured group.
  static absl::Status OpenLease(Batch& batch);
  // Tells the daemon of a captured group. Nothing is enqueued yet.
  absl::Status Register(Batch& batch);
  // For as long as the graph lives.
  static void KeepBuffers(const wire::WorkRecord& record, const Communicator& comm,
                          CaptureLease& lease);
  absl::Status WriteReady(Batch& batch);
  void TakeBackSlots();
  // Under the submit lock. Their buffers are named by the ring, or by nobody any more.
  static void NotePosted(Batch& batch);
  absl::Status PushAll();
  bool PushSome(Batch& batch);
  // Which call of its batch the record is, and what it waits for.
  static void SetPlace(const Batch& batch, uint64_t sequence, Operation& operation);
  static wire::WorkRecord MakeFence(const StreamUse& use, uint64_t sequence);
  absl::Status AwaitDone(Batch& batch);
  absl::Status AwaitStreams() const;

  std::vector<Operation> operations_;
  StagedGroup staged_;
  std::vector<Batch> batches_;
  std::vector<Communicator*> locked_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_H_
