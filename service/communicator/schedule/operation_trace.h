// The next operations of one communicator on this host, with the time of each step: the answer to
// `mccsctl trace communicator`. Ends after a number of operations or after kTimeoutNs, so its
// memory and its life are bounded.
//
//   OnPosted ─► TakeStamps (the operation starts) ─► stamps of the executor ─► Add (it completes)
//
// OWNER: CommunicatorTable; the OperationLoop fills it in. THREAD: the owning engine. Allocates only
// in the constructor.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_OPERATION_TRACE_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_OPERATION_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "proto/operation.h"
#include "proto/operation_trace.pb.h"
#include "service/executor/operation_stamps.h"

namespace mccs {

struct TracedOperation {
  uint64_t number = 0;  // in the communicator
  OpKind kind = OpKind::kNone;
  uint64_t bytes = 0;  // of the call's count
  OperationStamps stamps;
};

class OperationTrace {
 public:
  static constexpr uint32_t kMaxOperations = 1000;
  static constexpr int64_t kTimeoutNs = 10 * kNsPerSec;
  // Calls that some local ranks have posted, and whose times are remembered. Only captured calls
  // can be more than one at a time; the times of further ones are those of their start.
  static constexpr size_t kMaxCandidates = 8;

  // REQUIRES: 1 ≤ operations ≤ kMaxOperations. LIFETIME: `clock` outlives the trace.
  OperationTrace(uint32_t operations, const Clock& clock);

  // Some local ranks, or all of them, have posted the call `key` of the OperationLoop.
  void OnPosted(uint64_t key, bool by_all);
  // The call starts: returns its stamps until now.
  OperationStamps TakeStamps(uint64_t key);
  // The operation is complete; its done words are written. Ignored when full().
  void Add(TracedOperation operation);

  bool full() const { return operations_.size() >= requested_; }
  // The trace ends at this time at the latest.
  MonotonicNs deadline() const { return deadline_; }
  bool HasEnded() const { return full() || clock_.Now() >= deadline_; }

  // Writes the operations. `why`: the reason for which the trace has ended, if it is not full().
  void WriteTo(const char* why, trace::Host* out) const;

 private:
  struct Candidate {
    uint64_t key = 0;
    MonotonicNs first_posted = 0;  // 0: the entry is free
    MonotonicNs all_posted = 0;
  };

  Candidate* Find(uint64_t key);

  const uint32_t requested_;
  const Clock& clock_;
  const MonotonicNs deadline_;
  std::array<Candidate, kMaxCandidates> candidates_;
  std::vector<TracedOperation> operations_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_OPERATION_TRACE_H_
