// Submits the work of one group: the hot path.
//
// It enqueues all "ready" writes of all communicators and streams first, then pushes all records
// into the rings, and only then makes the streams wait for "done". With any other order two ranks
// on one stream, or two threads' groups, deadlock: a stream would wait for an operation whose other
// rank becomes ready after that wait.
//
// A group that is captured into a CUDA graph is sent to the daemon instead of the ring
// (captured_work.h), with the same order of writes and waits in the graph.
#ifndef MCCS_SHIM_SUBMIT_SUBMIT_H_
#define MCCS_SHIM_SUBMIT_SUBMIT_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "shim/submit/handle_table.h"

namespace mccs::shim {

// The operations of one group, in call order. It reuses its memory, so steady state allocates
// nothing.
// THREAD: owned by its thread.
class GroupWork {
 public:
  // `record` lacks sequence, flags and ready fence, and the places of staged buffers; Submit fills
  // them in. kFailedPrecondition: the streams that this group uses with the communicator are not
  // all part of the same capture, or all not captured.
  absl::Status Add(CommRef comm, CUstream stream, const wire::WorkRecord& record,
                   const StagedSides& staged);

  // Returns when all work is submitted: at once, unless a ring is full, or CUDA_LAUNCH_BLOCKING
  // requests a wait for the streams. Returns the first error. If one communicator fails, the
  // others' work is still submitted.
  absl::Status Submit();
  // The errors of the last Submit that mean that a GPU has failed, also those that it did not
  // return. Submit has reported them for the communicators that had posted work.
  std::vector<absl::Status> GpuFailures() const;

  // Estimated time of the operations in microseconds: operations of one communicator run one after
  // the other, communicators in parallel. One round trip to the daemon per operation.
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
    uint64_t key;   // StreamKey
    uint32_t slot;  // a captured slot if the batch is captured
    uint64_t value;
  };
  static CapturedPlace PlaceOf(const StreamUse& use) {
    return {use.slot, static_cast<uint32_t>(use.value)};
  }
  // The work of one communicator in this group.
  struct Batch {
    CommRef comm;
    uint32_t first;
    uint32_t last;
    absl::InlinedVector<StreamUse, 2> streams;
    unsigned long long capture;           // CUDA's id; 0: not captured
    std::shared_ptr<CaptureLease> lease;  // null if not captured, and before OpenLease
    // While records are written:
    uint32_t next_fence;  // index into `streams`; 0 denotes the operations' own slot
    uint32_t next_operation;
    uint32_t unposted;  // calls that UnpostedCalls counts
    uint64_t last_sequence;
    bool broken;
    // Why a stream of posted work does not wait for it, and the kernel that was not launched.
    absl::Status launch_error;
    std::optional<Communicator::UnlaunchedKernel> unlaunched;
  };

  static StreamUse UseOf(const Communicator& comm, CUstream stream);
  absl::StatusOr<Batch*> BatchFor(CommRef comm, CUstream stream);
  Batch* FindBatch(const Communicator* comm);
  static absl::Status CheckCapture(const Batch& batch, CUstream stream);
  void Lock();
  void Unlock();
  absl::Status CheckAll();
  // A message of a rank to itself must have its receive in the same group: otherwise it never ends.
  absl::Status CheckSelfMessages(const Batch& batch) const;
  // A group's kernels run at the same time, whatever order each rank gives its communicators: a
  // kernel moves to its communicator's side stream if an earlier communicator uses the same stream.
  absl::Status SeparateKernels();
  bool SharesStream(const Batch& batch) const;
  // Allocates staging memory, before anything is enqueued.
  absl::Status PlaceStaged();
  // Creates the graph's lease of a captured group.
  static absl::Status OpenLease(Batch& batch);
  // Sends a captured group to the daemon. Nothing is enqueued yet.
  absl::Status Register(Batch& batch);
  // Keeps the record's buffers exported as long as the graph lives.
  static void PinBuffers(const wire::WorkRecord& record, const Communicator& comm,
                         CaptureLease& lease);
  // The operations of a communicator run in the order of their calls. The copies of staged buffers
  // are work of streams, which other streams do not wait for by themselves.
  absl::Status OrderCopies(const Batch& batch) const;
  absl::Status WriteReady(Batch& batch);
  void ReclaimSlots();
  // Under the submit lock. From now on only the ring refers to their buffers, if anything does.
  static void MarkBatchPosted(Batch& batch);
  absl::Status PushAll();
  bool PushSome(Batch& batch);
  // Sets the record's number within its batch, and the ready fence that it waits for.
  static void SetPlace(const Batch& batch, uint64_t sequence, Operation& operation);
  static wire::WorkRecord MakeFence(const StreamUse& use, uint64_t sequence);
  // Of the larger side of a call: its kernel is sized by it.
  uint64_t LargestCallBytes(const Batch& batch) const;
  absl::Status AwaitDone(Batch& batch);
  absl::Status EnqueueWaits(Batch& batch);
  // Posted work whose kernel or wait could not be enqueued fails its communicator on all ranks.
  // Under the submit locks: a later call on the stream would launch a kernel that takes the
  // commands of the call that has none, and a finalize would keep the report from being sent.
  void ReportLaunchErrors() const;
  absl::Status AwaitStreams() const;

  std::vector<Operation> operations_;
  StagedGroup staged_;
  std::vector<Batch> batches_;
  std::vector<Communicator*> locked_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_SUBMIT_H_
