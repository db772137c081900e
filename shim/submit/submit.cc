#include "shim/submit/submit.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/cuda/cuda_error.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {
namespace {

// A daemon that takes longer to check a captured group counts as stuck.
constexpr std::chrono::seconds kCaptureTimeout{30};

}  // namespace

// ---- Collecting ------------------------------------------------------------------------------

absl::Status GroupWork::Add(CommRef comm, CUstream stream, const wire::WorkRecord& record,
                            const StagedSides& staged) {
  Communicator* const communicator = comm.get();
  absl::StatusOr<Batch*> joined = BatchFor(std::move(comm), stream);
  if (!joined.ok()) {
    std::lock_guard lock(communicator->submit_mutex());
    communicator->submission_state().unposted.MarkPosted(1);
    return joined.status();
  }
  Batch& batch = **joined;
  const auto index = static_cast<uint32_t>(operations_.size());
  if (batch.first == kEnd) {
    batch.first = batch.next_operation = index;
  } else {
    operations_[batch.last].next = index;
  }
  batch.last = index;
  ++batch.unposted;
  operations_.push_back({stream, kEnd, record});
  if (staged.any()) {
    staged_.Add({.comm = communicator,
                 .stream = stream,
                 .capture = batch.capture,
                 .operation = index,
                 .use = 0,
                 .sides = staged});
  }
  return absl::OkStatus();
}

// The key of the legacy default stream depends on the context.
GroupWork::StreamUse GroupWork::UseOf(const Communicator& comm, CUstream stream) {
  const ScopedContext context(comm.driver(), comm.context());
  return {.stream = stream,
          .key = StreamKey(comm.driver(), stream),
          .slot = wire::kNoReadySlot,
          .value = 0};
}

absl::StatusOr<GroupWork::Batch*> GroupWork::BatchFor(CommRef comm, CUstream stream) {
  if (Batch* batch = FindBatch(comm.get()); batch != nullptr) {
    const bool known = std::any_of(batch->streams.begin(), batch->streams.end(),
                                   [&](const StreamUse& other) { return other.stream == stream; });
    if (known) return batch;
    MCCS_RETURN_IF_ERROR(CheckCapture(*batch, stream));
    batch->streams.push_back(UseOf(*comm, stream));
    return batch;
  }
  MCCS_ASSIGN_OR_RETURN(const StreamCapture capture, CaptureOf(comm->driver(), stream));
  const StreamUse use = UseOf(*comm, stream);
  batches_.push_back({.comm = std::move(comm),
                      .first = kEnd,
                      .last = kEnd,
                      .streams = {use},
                      .capture = capture.id,
                      .lease = nullptr,
                      .next_fence = 1,
                      .next_operation = kEnd,
                      .unposted = 0,
                      .last_sequence = 0,
                      .broken = false,
                      .launch_error = {},
                      .unlaunched = {}});
  return &batches_.back();
}

GroupWork::Batch* GroupWork::FindBatch(const Communicator* comm) {
  const auto batch = std::find_if(batches_.rbegin(), batches_.rend(),
                                  [&](const Batch& b) { return b.comm.get() == comm; });
  return batch == batches_.rend() ? nullptr : &*batch;
}

absl::Status GroupWork::CheckCapture(const Batch& batch, CUstream stream) {
  MCCS_ASSIGN_OR_RETURN(const StreamCapture capture, CaptureOf(batch.comm->driver(), stream));
  if (capture.id == batch.capture) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a group uses captured and uncaptured streams with one communicator; capture all of them "
      "into one CUDA graph or none, and call ncclGroupEnd before a capture begins or ends");
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

void GroupWork::MarkBatchPosted(Batch& batch) {
  batch.comm->submission_state().unposted.MarkPosted(std::exchange(batch.unposted, 0));
}

void GroupWork::Clear() {
  for (Batch& batch : batches_) {
    if (batch.unposted == 0) continue;
    std::lock_guard lock(batch.comm->submit_mutex());
    MarkBatchPosted(batch);
  }
  operations_.clear();
  staged_.Clear();
  batches_.clear();
}

// ---- Submitting ------------------------------------------------------------------------------

absl::Status GroupWork::Submit() {
  if (batches_.empty()) return absl::OkStatus();
  Lock();
  absl::Status status = CheckAll();
  for (Batch& batch : batches_) {
    if (status.ok() && batch.capture != 0) status = OpenLease(batch);
  }
  if (status.ok() && !staged_.empty()) status = PlaceStaged();
  for (Batch& batch : batches_) {
    if (status.ok() && batch.capture != 0) status = Register(batch);
  }
  if (status.ok()) status = SeparateKernels();
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
    ReclaimSlots();
  }
  for (Batch& batch : batches_) MarkBatchPosted(batch);
  ReportLaunchErrors();
  Unlock();
  return status.ok() ? AwaitStreams() : status;
}

// Nothing was posted with this group's slots. Their writes may still happen, so other streams may
// get the slots only after the communicator's next operation.
void GroupWork::ReclaimSlots() {
  for (Batch& batch : batches_) {
    if (batch.capture != 0) continue;
    for (const StreamUse& use : batch.streams) {
      if (use.slot == wire::kNoReadySlot) continue;
      SubmissionState& side = batch.comm->submission_state();
      side.slots.MarkPosted(use.slot, side.ring.last_sequence() + 1);
    }
  }
}

// In address order: two threads with groups over the same communicators do not deadlock.
void GroupWork::Lock() {
  locked_.clear();
  for (Batch& batch : batches_) locked_.push_back(batch.comm.get());
  std::sort(locked_.begin(), locked_.end());
  for (Communicator* comm : locked_) comm->submit_mutex().lock();
}

void GroupWork::Unlock() {
  for (Communicator* comm : locked_) comm->submit_mutex().unlock();
}

// Makes all checks before anything is enqueued.
absl::Status GroupWork::CheckAll() {
  for (Batch& batch : batches_) {
    MCCS_RETURN_IF_ERROR(batch.comm->CheckUsable());
    MCCS_RETURN_IF_ERROR(CheckSelfMessages(batch));
    if (batch.streams.size() > wire::kReadySlots) {
      return absl::FailedPreconditionError(
          absl::StrCat("a group uses ", batch.streams.size(),
                       " streams with one communicator; expected at most ", wire::kReadySlots,
                       "; use fewer streams or several groups"));
    }
    for (const StreamUse& use : batch.streams) {
      MCCS_RETURN_IF_ERROR(CheckCapture(batch, use.stream));
    }
  }
  return absl::OkStatus();
}

absl::Status GroupWork::CheckSelfMessages(const Batch& batch) const {
  int unmatched = 0;  // sends minus receives
  for (uint32_t i = batch.first; i != kEnd; i = operations_[i].next) {
    const wire::WorkRecord& record = operations_[i].record;
    if (!IsMessage(record.op) || record.root_or_peer != batch.comm->rank()) continue;
    unmatched += record.op == OpKind::kSend ? 1 : -1;
  }
  if (unmatched == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", batch.comm->rank(), unmatched > 0 ? " sends to itself" : " receives from itself",
      " without the matching ", unmatched > 0 ? "ncclRecv" : "ncclSend",
      " in the same group; put both between ncclGroupStart and ncclGroupEnd"));
}

bool GroupWork::SharesStream(const Batch& batch) const {
  // By keys: one stream may have two handles (0 and cudaStreamLegacy).
  for (const Batch& earlier : batches_) {
    if (&earlier == &batch) break;
    if (earlier.comm->context() != batch.comm->context()) continue;
    for (const StreamUse& use : earlier.streams) {
      if (use.key == batch.streams[0].key) return true;
    }
  }
  return false;
}

// The batch's streams all wait for "done"; the daemon waits for all of them, as for any stream of
// the group. Captured groups keep the order of their calls.
absl::Status GroupWork::SeparateKernels() {
  for (Batch& batch : batches_) {
    if (batch.comm->page().kernel_region() == nullptr || batch.capture != 0) continue;
    if (batch.streams.size() >= wire::kReadySlots || !SharesStream(batch)) continue;
    MCCS_ASSIGN_OR_RETURN(const CUstream side,
                          batch.comm->submission_state().side.After(batch.streams[0].stream));
    batch.streams.insert(batch.streams.begin(), UseOf(*batch.comm, side));
  }
  return absl::OkStatus();
}

absl::Status GroupWork::PlaceStaged() {
  MCCS_RETURN_IF_ERROR(staged_.Place());
  for (const StagedGroup::Call& call : staged_.calls()) {
    staged_.WritePlaces(call, operations_[call.operation].record);
  }
  return absl::OkStatus();
}

void GroupWork::PinBuffers(const wire::WorkRecord& record, const Communicator& comm,
                           CaptureLease& lease) {
  const auto ranks = static_cast<uint64_t>(comm.ranks());
  const uint64_t size = SizeOf(record.type);
  const CallElements sides =
      ElementsOf(record.op, record.count, ranks, comm.rank() == record.root_or_peer);
  if (record.send.id != 0) lease.Pin(record.send, sides.input * size);
  if (record.recv.id != 0) lease.Pin(record.recv, sides.output * size);
  if (record.scalar_buffer.id != 0) lease.Pin(record.scalar_buffer, size);
}

absl::Status GroupWork::OpenLease(Batch& batch) {
  Communicator& comm = *batch.comm;
  ScopedContext context(comm.driver(), comm.context());
  MCCS_ASSIGN_OR_RETURN(const StreamCapture capture,
                        CaptureOf(comm.driver(), batch.streams[0].stream));
  MCCS_ASSIGN_OR_RETURN(batch.lease, comm.submission_state().captures.LeaseOf(capture));
  return absl::OkStatus();
}

absl::Status GroupWork::Register(Batch& batch) {
  Communicator& comm = *batch.comm;
  ScopedContext context(comm.driver(), comm.context());
  for (StreamUse& use : batch.streams) {
    const std::optional<CapturedPlace> place = batch.lease->PlaceOf(use.key);
    if (!place) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "live CUDA graphs use ", wire::kCapturedSlots,
          " streams with one communicator, which is the limit; destroy unused graphs"));
    }
    use.slot = place->slot;
    use.value = place->group;
  }
  for (uint32_t i = batch.first; i != kEnd; i = operations_[i].next) {
    PinBuffers(operations_[i].record, comm, *batch.lease);
  }
  DaemonClient& daemon = *comm.session()->client;
  wire::CaptureWork message{};
  message.capture = batch.lease->number();
  message.comm_handle = comm.handle();
  for (size_t i = 1; i < batch.streams.size(); ++i) {
    message.record = MakeFence(batch.streams[i], 1);
    daemon.SendOneWay(message);
  }
  uint64_t sequence = 0;
  for (uint32_t i = batch.first; i != kEnd; i = operations_[i].next) {
    SetPlace(batch, ++sequence, operations_[i]);
    message.record = operations_[i].record;
    if (i != batch.last) daemon.SendOneWay(message);
  }
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, daemon.Send(message));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, daemon.Await(request, kCaptureTimeout));
  MCCS_RETURN_IF_ERROR(reply.As<wire::Done>().status());
  for (const StreamUse& use : batch.streams) batch.lease->CommitPlace(use.key);
  return absl::OkStatus();
}

absl::Status GroupWork::OrderCopies(const Batch& batch) const {
  Communicator& comm = *batch.comm;
  SubmissionState& side = comm.submission_state();
  const uint64_t last = side.ring.last_sequence();
  const bool waits = staged_.CopiesIn(comm) && comm.page().region().done.value.load() < last;
  if (!waits && side.staging.empty()) return absl::OkStatus();
  for (const StreamUse& use : batch.streams) {
    MCCS_RETURN_IF_ERROR(side.staging.OrderAfterCopies(use.stream, use.key));
    // The last group's own stream has waited for it.
    if (!waits || side.last_stream == use.key) continue;
    MCCS_RETURN_IF_ERROR(CheckCuda(
        comm.driver(), comm.stream_wait().Enqueue(use.stream, comm.page().done_address(), last),
        "cannot enqueue a wait on the stream"));
  }
  return absl::OkStatus();
}

absl::Status GroupWork::WriteReady(Batch& batch) {
  Communicator& comm = *batch.comm;
  SubmissionState& side = comm.submission_state();
  const wire::CommRegion& region = comm.page().region();
  ScopedContext context(comm.driver(), comm.context());
  if (batch.capture == 0) MCCS_RETURN_IF_ERROR(OrderCopies(batch));
  if (!staged_.empty()) MCCS_RETURN_IF_ERROR(staged_.CopyIn(comm));
  for (StreamUse& use : batch.streams) {
    if (batch.capture != 0) {
      MCCS_RETURN_IF_ERROR(CaptureReady(comm.driver(), comm.page(), use.stream, PlaceOf(use)));
      continue;
    }
    BackoffWait wait;
    std::optional<uint32_t> slot;
    // Pairs with the daemon's store when an operation completes.
    while (
        !(slot = side.slots.Acquire(use.key, region.done.value.load(std::memory_order_acquire)))) {
      if (comm.broken()) return comm.Failure();
      wait.Pause();
    }
    use.slot = *slot;
    use.value = side.slots.NextValue(*slot);
    // Reserved until the operations have numbers, so that no other stream of this group gets it.
    side.slots.MarkPosted(*slot, UINT64_MAX);
    const CUresult error = comm.driver().StreamWriteValue64(
        use.stream, comm.page().ready_address(*slot), use.value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (error != CUDA_SUCCESS) {
      return CudaError(comm.driver(), error, "cannot enqueue a fence on the stream");
    }
  }
  return absl::OkStatus();
}

// Round robin: a full ring blocks only its own communicator, and its daemon may need the other
// communicators' records to empty it.
absl::Status GroupWork::PushAll() {
  BackoffWait wait;
  while (true) {
    bool all_done = true;
    bool progress = false;
    for (Batch& batch : batches_) {
      if (batch.next_operation == kEnd || batch.broken || batch.capture != 0) continue;
      progress |= PushSome(batch);
      all_done &= batch.next_operation == kEnd || batch.broken;
    }
    if (all_done) break;
    if (progress) {
      wait = BackoffWait();
    } else {
      wait.Pause();
    }
  }
  absl::Status status;
  for (Batch& batch : batches_) {
    if (batch.capture != 0) continue;
    SubmissionState& side = batch.comm->submission_state();
    batch.last_sequence = side.ring.last_sequence();
    side.last_stream.reset();
    if (batch.streams.size() == 1) side.last_stream = batch.streams[0].key;
    // Records that are not in the ring will not run: the streams wait for the communicator's end.
    if (batch.broken) ++batch.last_sequence;
    for (const StreamUse& use : batch.streams) side.slots.MarkPosted(use.slot, batch.last_sequence);
    if (batch.broken && status.ok()) status = batch.comm->Failure();
  }
  return status;
}

// Writes what fits into the ring: fences of further streams first, then the operations. True if it
// wrote anything.
bool GroupWork::PushSome(Batch& batch) {
  SubmissionState& side = batch.comm->submission_state();
  bool full = false;
  while (!full && batch.next_fence < batch.streams.size()) {
    full =
        !side.ring.Write(MakeFence(batch.streams[batch.next_fence], side.ring.last_sequence() + 1));
    if (!full) ++batch.next_fence;
  }
  while (!full && batch.next_operation != kEnd) {
    Operation& operation = operations_[batch.next_operation];
    SetPlace(batch, side.ring.last_sequence() + 1, operation);
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

void GroupWork::SetPlace(const Batch& batch, uint64_t sequence, Operation& operation) {
  operation.record.sequence = sequence;
  operation.record.flags = operation.next == kEnd ? wire::kNoFlags : wire::kMoreInGroup;
  operation.record.ready_slot = batch.streams[0].slot;
  operation.record.ready_value = batch.streams[0].value;
}

wire::WorkRecord GroupWork::MakeFence(const StreamUse& use, uint64_t sequence) {
  wire::WorkRecord record{};
  record.record = wire::RecordKind::kFence;
  record.sequence = sequence;
  record.flags = wire::kMoreInGroup;
  record.ready_slot = use.slot;
  record.ready_value = use.value;
  return record;
}

uint64_t GroupWork::LargestCallBytes(const Batch& batch) const {
  const auto ranks = static_cast<uint64_t>(batch.comm->ranks());
  uint64_t largest = 0;
  for (uint32_t i = batch.first; i != kEnd; i = operations_[i].next) {
    const wire::WorkRecord& record = operations_[i].record;
    const CallElements sides =
        ElementsOf(record.op, record.count, ranks, batch.comm->rank() == record.root_or_peer);
    largest = std::max(largest, std::max(sides.input, sides.output) * SizeOf(record.type));
  }
  return largest;
}

absl::Status GroupWork::AwaitDone(Batch& batch) {
  absl::Status status = EnqueueWaits(batch);
  if (batch.capture == 0) batch.launch_error = status;
  return status;
}

absl::Status GroupWork::EnqueueWaits(Batch& batch) {
  Communicator& comm = *batch.comm;
  const FencePage& page = comm.page();
  const bool captured = batch.capture != 0;
  const uint64_t largest = page.kernel_region() != nullptr ? LargestCallBytes(batch) : 0;
  ScopedContext context(comm.driver(), comm.context());
  for (const StreamUse& use : batch.streams) {
    const CUdeviceptr done = captured ? page.captured_done_address(use.slot) : page.done_address();
    const uint64_t value = captured ? wire::kCapturedDone : batch.last_sequence;
    // The records name the first stream's slot: its kernel runs them, the others wait.
    const bool runs = &use == &batch.streams[0] && page.kernel_region() != nullptr;
    const CUresult error =
        !runs ? comm.stream_wait().Enqueue(use.stream, done, value)
              : comm.session()->command_kernel->Enqueue(
                    use.stream,
                    captured ? page.captured_queue(use.slot) : page.posted_queue(use.slot), done,
                    value, largest);
    if (error == CUDA_SUCCESS) continue;
    if (runs && !captured) {
      batch.unlaunched = {.slot = use.slot, .first_call = operations_[batch.first].record.sequence};
    }
    return CudaError(comm.driver(), error,
                     captured ? "cannot capture a wait"
                     : runs   ? "cannot launch the kernel of a posted call"
                              : "cannot enqueue a wait on the stream");
  }
  return staged_.empty() ? absl::OkStatus() : staged_.CopyOut(comm);
}

void GroupWork::ReportLaunchErrors() const {
  for (const Batch& batch : batches_) {
    if (batch.launch_error.ok()) continue;
    Communicator& comm = *batch.comm;
    if (GpuFailureOf(batch.launch_error).has_value()) {
      comm.ReportGpuFailure(comm.DescribeGpuFailure(batch.launch_error));
    } else {
      comm.ReportLaunchFailure(
          absl::StrCat("CUDA device ", comm.device(), ": ", batch.launch_error.message()),
          batch.unlaunched);
    }
  }
}

std::vector<absl::Status> GroupWork::GpuFailures() const {
  std::vector<absl::Status> failures;
  for (const Batch& batch : batches_) {
    if (GpuFailureOf(batch.launch_error).has_value()) failures.push_back(batch.launch_error);
  }
  return failures;
}

// Without the locks: these streams may wait for another thread's group.
absl::Status GroupWork::AwaitStreams() const {
  for (const Batch& batch : batches_) {
    if (!batch.comm->launch_blocking() || batch.capture != 0) continue;
    ScopedContext context(batch.comm->driver(), batch.comm->context());
    for (const StreamUse& use : batch.streams) {
      const CUresult error = batch.comm->driver().StreamSynchronize(use.stream);
      if (error != CUDA_SUCCESS) {
        return CudaError(batch.comm->driver(), error, "CUDA_LAUNCH_BLOCKING: cuStreamSynchronize");
      }
    }
    // Released by the communicator's end, not by the result.
    if (LastDone(batch.comm->page().region()) < batch.last_sequence) return batch.comm->Failure();
  }
  return absl::OkStatus();
}

}  // namespace mccs::shim
