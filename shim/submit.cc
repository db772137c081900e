#include "shim/submit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/error_text.h"
#include "shim/stream_key.h"

namespace mccs::shim {
namespace {

bool IsCapturing(const DriverApi& driver, CUstream stream) {
  CUstreamCaptureStatus status;
  return driver.StreamIsCapturing != nullptr &&
         driver.StreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

// ---- Collecting ------------------------------------------------------------------------------

void GroupWork::Add(CommRef comm, CUstream stream, const wire::WorkRecord& record,
                    const StagedSides& staged) {
  const auto index = static_cast<uint32_t>(operations_.size());
  operations_.push_back({stream, kEnd, record});
  if (staged.any()) {
    staged_.Add(
        {.comm = comm.get(), .stream = stream, .operation = index, .use = 0, .sides = staged});
  }
  Batch& batch = BatchOf(std::move(comm), stream, index);
  ++batch.unposted;
  if (batch.last != index) {
    operations_[batch.last].next = index;
    batch.last = index;
  }
  const bool known = std::any_of(batch.streams.begin(), batch.streams.end(),
                                 [&](const StreamUse& use) { return use.stream == stream; });
  if (!known) batch.streams.push_back({stream, wire::kNoReadySlot, 0});
}

GroupWork::Batch& GroupWork::BatchOf(CommRef comm, CUstream stream, uint32_t index) {
  for (auto batch = batches_.rbegin(); batch != batches_.rend(); ++batch) {
    if (batch->comm.get() == comm.get()) return *batch;
  }
  batches_.push_back({.comm = std::move(comm),
                      .first = index,
                      .last = index,
                      .streams = {{stream, wire::kNoReadySlot, 0}},
                      .next_fence = 1,
                      .next_operation = index,
                      .unposted = 0,
                      .last_sequence = 0,
                      .broken = false});
  return batches_.back();
}

absl::StatusOr<double> GroupWork::EstimateUs() {
  double longest = 0;
  for (Batch& batch : batches_) {
    MCCS_RETURN_IF_ERROR(batch.comm->CheckUsable());
    double sum = 0;
    for (uint32_t at = batch.first; at != kEnd; at = operations_[at].next) {
      MCCS_ASSIGN_OR_RETURN(const double each, batch.comm->EstimateUs(operations_[at].record));
      sum += each;
    }
    longest = std::max(longest, sum);
  }
  return longest;
}

void GroupWork::NotePosted(Batch& batch) {
  batch.comm->submit_side().unposted.Posted(std::exchange(batch.unposted, 0));
}

void GroupWork::Clear() {
  for (Batch& batch : batches_) {
    if (batch.unposted == 0) continue;
    std::lock_guard lock(batch.comm->submit_mutex());
    NotePosted(batch);
  }
  operations_.clear();
  staged_.Clear();
  batches_.clear();
}

// ---- Handing over ----------------------------------------------------------------------------

absl::Status GroupWork::Submit() {
  if (batches_.empty()) return absl::OkStatus();
  Lock();
  absl::Status status = CheckAll();
  if (status.ok() && !staged_.empty()) status = PlaceStaged();
  for (Batch& batch : batches_) {
    if (status.ok()) status = WriteReady(batch);
  }
  if (status.ok()) {
    status = PushAll();
    for (Batch& batch : batches_) {
      absl::Status waited = AwaitDone(batch);
      if (status.ok()) status = std::move(waited);
    }
  } else {
    TakeBackSlots();
  }
  for (Batch& batch : batches_) NotePosted(batch);
  Unlock();
  return status.ok() ? AwaitStreams() : status;
}

// Nothing was posted with the slots that this group took. Their writes may still happen, so they
// are free for other streams when the communicator's next operation is done, not sooner.
void GroupWork::TakeBackSlots() {
  for (Batch& batch : batches_) {
    for (const StreamUse& use : batch.streams) {
      if (use.slot == wire::kNoReadySlot) continue;
      SubmitSide& side = batch.comm->submit_side();
      side.slots.Posted(use.slot, side.ring.last_sequence() + 1);
    }
  }
}

// In the order of their addresses: two threads with groups over the same communicators do not block
// each other.
void GroupWork::Lock() {
  locked_.clear();
  for (Batch& batch : batches_) locked_.push_back(batch.comm.get());
  std::sort(locked_.begin(), locked_.end());
  for (Communicator* comm : locked_) comm->submit_mutex().lock();
}

void GroupWork::Unlock() {
  for (Communicator* comm : locked_) comm->submit_mutex().unlock();
}

// Everything that can be refused is refused before anything is enqueued.
absl::Status GroupWork::CheckAll() {
  for (Batch& batch : batches_) {
    MCCS_RETURN_IF_ERROR(batch.comm->CheckUsable());
    MCCS_RETURN_IF_ERROR(CheckSelfMessages(batch));
    if (batch.streams.size() > wire::kReadySlots) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a group uses ", batch.streams.size(), " streams with one communicator; at most ",
          wire::kReadySlots, " are possible: use fewer streams or several groups"));
    }
    for (const StreamUse& use : batch.streams) {
      if (IsCapturing(batch.comm->driver(), use.stream)) {
        return absl::UnimplementedError(
            "the stream is being captured into a CUDA graph, which MCCS does not support in this "
            "release: run the collective outside the capture");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status GroupWork::CheckSelfMessages(const Batch& batch) const {
  int unmatched = 0;  // sends less receives
  for (uint32_t i = batch.first; i != kEnd; i = operations_[i].next) {
    const wire::WorkRecord& record = operations_[i].record;
    if (!IsMessage(record.op) || record.root_or_peer != batch.comm->rank()) continue;
    unmatched += record.op == OpKind::kSend ? 1 : -1;
  }
  if (unmatched == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", batch.comm->rank(), unmatched > 0 ? " sends to itself" : " receives from itself",
      " without the matching ", unmatched > 0 ? "ncclRecv" : "ncclSend",
      " in the same group: put both between ncclGroupStart and ncclGroupEnd"));
}

absl::Status GroupWork::PlaceStaged() {
  MCCS_RETURN_IF_ERROR(staged_.Place());
  for (const StagedGroup::Call& call : staged_.calls()) {
    staged_.WritePlaces(call, operations_[call.operation].record);
  }
  return absl::OkStatus();
}

absl::Status GroupWork::WriteReady(Batch& batch) {
  Communicator& comm = *batch.comm;
  SubmitSide& side = comm.submit_side();
  const wire::CommRegion& region = comm.page().region();
  ScopedContext context(comm.driver(), comm.context());
  if (!staged_.empty()) MCCS_RETURN_IF_ERROR(staged_.CopyIn(comm));
  for (StreamUse& use : batch.streams) {
    const uint64_t key = StreamKey(comm.driver(), use.stream);
    PoliteWait wait;
    std::optional<uint32_t> slot;
    // Pairs with the daemon's store when an operation is complete.
    while (!(slot = side.slots.Acquire(key, region.done.value.load(std::memory_order_acquire)))) {
      if (comm.broken()) return comm.Failure();
      wait.Pause();
    }
    use.slot = *slot;
    use.value = side.slots.NextValue(*slot);
    // Held until the operations have their numbers, so that no other stream of this group gets it.
    side.slots.Posted(*slot, UINT64_MAX);
    const CUresult error = comm.driver().StreamWriteValue64(
        use.stream, comm.page().ready_address(*slot), use.value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (error != CUDA_SUCCESS) {
      return CudaError(comm.driver(), error, "cannot enqueue a fence on the stream");
    }
  }
  return absl::OkStatus();
}

// Round robin: a ring that is full holds up its own communicator only, and its daemon may need the
// other communicators' records to empty it.
absl::Status GroupWork::PushAll() {
  PoliteWait wait;
  while (true) {
    bool all_done = true;
    bool progress = false;
    for (Batch& batch : batches_) {
      if (batch.next_operation == kEnd || batch.broken) continue;
      progress |= PushSome(batch);
      all_done &= batch.next_operation == kEnd || batch.broken;
    }
    if (all_done) break;
    if (progress) {
      wait = PoliteWait();
    } else {
      wait.Pause();
    }
  }
  absl::Status status;
  for (Batch& batch : batches_) {
    SubmitSide& side = batch.comm->submit_side();
    batch.last_sequence = side.ring.last_sequence();
    for (const StreamUse& use : batch.streams) side.slots.Posted(use.slot, batch.last_sequence);
    if (batch.broken && status.ok()) status = batch.comm->Failure();
  }
  return status;
}

// Writes as much as the ring takes: fences of further streams first, then the operations. True if
// anything was written.
bool GroupWork::PushSome(Batch& batch) {
  SubmitSide& side = batch.comm->submit_side();
  bool full = false;
  while (!full && batch.next_fence < batch.streams.size()) {
    full = !side.ring.Write(MakeFence(batch));
    if (!full) ++batch.next_fence;
  }
  while (!full && batch.next_operation != kEnd) {
    Operation& operation = operations_[batch.next_operation];
    operation.record.sequence = side.ring.last_sequence() + 1;
    operation.record.flags = operation.next == kEnd ? wire::kNoFlags : wire::kMoreInGroup;
    operation.record.ready_slot = batch.streams[0].slot;
    operation.record.ready_value = batch.streams[0].value;
    full = !side.ring.Write(operation.record);
    if (full) break;
    side.ring.NextSequence();
    batch.next_operation = operation.next;
  }
  const bool wrote = side.ring.Publish();
  if (wrote) batch.comm->NotifyDaemon();
  batch.broken = full && batch.comm->broken();
  return wrote;
}

wire::WorkRecord GroupWork::MakeFence(const Batch& batch) const {
  const StreamUse& use = batch.streams[batch.next_fence];
  wire::WorkRecord record{};
  record.record = wire::RecordKind::kFence;
  record.sequence = batch.comm->submit_side().ring.last_sequence() + 1;
  record.flags = wire::kMoreInGroup;
  record.ready_slot = use.slot;
  record.ready_value = use.value;
  return record;
}

absl::Status GroupWork::AwaitDone(Batch& batch) {
  Communicator& comm = *batch.comm;
  ScopedContext context(comm.driver(), comm.context());
  for (const StreamUse& use : batch.streams) {
    const CUresult error = comm.driver().StreamWaitValue64(
        use.stream, comm.page().done_address(), batch.last_sequence, CU_STREAM_WAIT_VALUE_GEQ);
    if (error != CUDA_SUCCESS) {
      return CudaError(comm.driver(), error, "cannot enqueue a wait on the stream");
    }
  }
  return staged_.empty() ? absl::OkStatus() : staged_.CopyOut(comm);
}

// Without the locks: another thread's group may be what these streams wait for.
absl::Status GroupWork::AwaitStreams() const {
  for (const Batch& batch : batches_) {
    if (!batch.comm->launch_blocking()) continue;
    ScopedContext context(batch.comm->driver(), batch.comm->context());
    for (const StreamUse& use : batch.streams) {
      const CUresult error = batch.comm->driver().StreamSynchronize(use.stream);
      if (error != CUDA_SUCCESS) {
        return CudaError(batch.comm->driver(), error, "CUDA_LAUNCH_BLOCKING: cuStreamSynchronize");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace mccs::shim
