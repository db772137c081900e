#include "shim/process/group.h"

#include <pthread.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shim/cuda/cuda_error.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {

namespace {

// A trivial type, so that it is readable until the thread ends.
thread_local Group* group_of_thread = nullptr;

void EndGroup(void* group) {
  group_of_thread = nullptr;
  delete static_cast<Group*>(group);
}

// Ends a thread's group. It runs after the destructors of thread_local objects, which may call
// NCCL. It does not run for the thread that exits the process, whose atexit functions may call
// NCCL. Without a key, groups are never ended.
std::optional<pthread_key_t> EndOfThread() {
  pthread_key_t key;
  return pthread_key_create(&key, &EndGroup) == 0 ? std::optional(key) : std::nullopt;
}

// If `status` means that a GPU has failed, fails all communicators of this process on that GPU,
// also those that have no part in the call, and adds the GPU's name.
absl::Status ReportGpuFailure(absl::Status status) {
  const std::optional<GpuFailure> failure = GpuFailureOf(status);
  if (!failure.has_value()) return status;
  std::string text;
  Process::Get().handles().ForEach([&](Communicator& comm) {
    if (comm.context() != failure->context) return;
    if (text.empty()) text = comm.DescribeGpuFailure(status);
    comm.ReportGpuFailure(text);
  });
  return text.empty() ? status : absl::UnknownError(text);
}

}  // namespace

Group& Group::OfThisThread() {
  if (group_of_thread == nullptr) [[unlikely]] {
    static const std::optional<pthread_key_t> end = EndOfThread();
    group_of_thread = new Group;
    if (end) pthread_setspecific(*end, group_of_thread);
  }
  return *group_of_thread;
}

Group::~Group() {
  // The variables for the handles may have been on the thread's stack.
  ncclComm_t nowhere;
  for (InitJob& job : inits_) job.where = &nowhere;
  Clear();
}

Group::Outcome Group::End() {
  if (depth_ == 0) {
    return {absl::FailedPreconditionError(
        "ncclGroupEnd without ncclGroupStart; call ncclGroupStart first")};
  }
  if (--depth_ > 0) return {};
  Outcome outcome;
  outcome.status = std::exchange(error_, absl::OkStatus());
  if (outcome.status.ok()) outcome.status = RunInits(&outcome.in_progress);
  if (outcome.status.ok()) {
    outcome.status = ReportGpuFailure(work_.Submit());
    // Another communicator's error may have come first.
    for (const absl::Status& failure : work_.GpuFailures()) (void)ReportGpuFailure(failure);
  }
  if (outcome.status.ok()) outcome.status = RunDestroys();
  Clear();
  return outcome;
}

absl::StatusOr<std::optional<double>> Group::SimulateEnd(bool wanted) {
  if (depth_ == 0) {
    return absl::FailedPreconditionError(
        "ncclGroupSimulateEnd without ncclGroupStart; call ncclGroupStart first");
  }
  if (--depth_ > 0) return std::nullopt;
  const absl::Status error = std::exchange(error_, absl::OkStatus());
  absl::StatusOr<std::optional<double>> estimate = std::optional<double>();
  if (!error.ok()) estimate = error;
  if (error.ok() && wanted) estimate = work_.EstimateUs();
  if (error.ok()) (void)RunDestroys();
  Clear();
  return estimate;
}

int Group::Abandon() {
  error_ = absl::OkStatus();
  Clear();
  return std::exchange(depth_, 0);
}

void Group::Clear() {
  // Takes back the handles of inits that never ran.
  for (InitJob& job : inits_) job.Drop();
  inits_.clear();
  work_.Clear();
  // The group has failed. Communicators that are being finalized already continue.
  for (CommRef& comm : destroys_) {
    if (!comm->finalized_or_finalizing()) {
      comm->Abort();
      continue;
    }
    (void)comm->AwaitFinalized();
    comm->ReleaseStreams();
  }
  destroys_.clear();
}

void Group::InitJob::Drop() {
  if (Process::Get().handles().Retire(handle)) *where = nullptr;
}

absl::Status Group::AddPendingInit(PendingInit pending) {
  if (!inits_.empty() && inits_.front().blocking != pending.blocking) {
    return absl::InvalidArgumentError(
        "a group cannot create both blocking and non-blocking communicators "
        "(ncclConfig_t.blocking); use two groups");
  }
  HandleTable& handles = Process::Get().handles();
  const ncclComm_t handle = handles.Insert(std::move(pending.comm));
  if (handle == nullptr) {
    return absl::ResourceExhaustedError(
        "too many communicators in this process; destroy unused ones");
  }
  if (pending.expose_at_once) *pending.where = handle;
  inits_.push_back({.comm = handles.Find(handle),
                    .handle = handle,
                    .where = pending.where,
                    .blocking = pending.blocking,
                    .has_no_color = pending.has_no_color,
                    .parent = std::move(pending.parent),
                    .ends_parent = pending.ends_parent});
  return absl::OkStatus();
}

void Group::AddDestroy(CommRef comm) { destroys_.push_back(std::move(comm)); }

// Sends all requests before it awaits replies: a process may hold several ranks of one
// communicator.
absl::Status Group::RunInits(bool* in_progress) {
  absl::Status first_error;
  auto note = [&](const absl::Status& status) {
    if (first_error.ok()) first_error = status;
    return status.ok();
  };
  std::vector<InitJob> jobs = std::exchange(inits_, {});
  for (InitJob& job : jobs) {
    note(job.comm->Join());
    if (job.blocking && job.parent) job.parent->BeginChildJoin(job.comm.get());
  }
  for (InitJob& job : jobs) {
    if (!job.ends_parent) continue;
    RecordFailure(*job.parent);
    job.parent->EndForShrink();
  }
  for (InitJob& job : jobs) {
    if (!job.blocking) {
      *in_progress = true;
      // ncclCommGetAsyncError reports the outcome; the handle stays valid.
      if (job.has_no_color) job.Drop();
      if (!job.has_no_color && job.parent) job.parent->TrackChildJoin(job.comm.get());
      if (!job.has_no_color) *job.where = job.handle;
      continue;
    }
    // After a failure other ranks may still be joined elsewhere: abort them without waiting.
    if (!first_error.ok()) job.comm->Abort();
    note(Finish(job));
  }
  return first_error;
}

// Waits for a blocking init. Sets the handle only now, because a visible handle may be used.
absl::Status Group::Finish(InitJob& job) {
  const absl::Status joined = job.comm->AwaitJoined();
  if (job.parent) job.parent->EndChildJoin(job.comm.get());
  if (joined.ok() && !job.comm->has_no_color()) {
    *job.where = job.handle;
  } else {
    job.Drop();
  }
  return joined;
}

absl::Status Group::RunDestroys() {
  absl::Status undone;
  std::vector<CommRef> leaving = std::exchange(destroys_, {});
  for (CommRef& comm : leaving) {
    if (comm->finalized_or_finalizing() || comm->BeginFinalize().ok()) continue;
    // A communicator that failed or never became ready has nothing to flush.
    undone.Update(comm->IncompleteWork());
    comm->Abort();
  }
  for (CommRef& comm : leaving) {
    const absl::Status flushed = comm->AwaitFinalized();
    if (comm->finalized_or_finalizing()) undone.Update(flushed);
    RecordFailure(*comm);
    comm->ReleaseStreams();
  }
  return undone;
}

ncclResult_t ImplicitGroup::Finish(const absl::Status& status) {
  if (!status.ok()) group_.AddError(status);
  Group::Outcome outcome = group_.End();
  // Within the caller's group, report the call's own error at once, and again at the group's end.
  if (!status.ok()) return Report(status);
  if (!outcome.status.ok()) return Report(outcome.status);
  return outcome.in_progress ? ncclInProgress : ncclSuccess;
}

}  // namespace mccs::shim
