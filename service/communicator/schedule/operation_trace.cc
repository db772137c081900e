#include "service/communicator/schedule/operation_trace.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {

OperationTrace::OperationTrace(uint32_t operations, const Clock& clock)
    : requested_(operations), clock_(clock), deadline_(clock.Now() + kTimeoutNs) {
  MCCS_CHECK(operations >= 1 && operations <= kMaxOperations);
  operations_.reserve(operations);
}

OperationTrace::Candidate* OperationTrace::Find(uint64_t key) {
  const auto known = std::ranges::find_if(candidates_, [key](const Candidate& candidate) {
    return candidate.first_posted != 0 && candidate.key == key;
  });
  return known == candidates_.end() ? nullptr : &*known;
}

void OperationTrace::OnPosted(uint64_t key, bool by_all) {
  Candidate* candidate = Find(key);
  if (candidate == nullptr) {
    const auto free = std::ranges::find(candidates_, 0, &Candidate::first_posted);
    if (free == candidates_.end()) return;
    *free = {.key = key, .first_posted = clock_.Now(), .all_posted = 0};
    candidate = &*free;
  }
  if (by_all && candidate->all_posted == 0) candidate->all_posted = clock_.Now();
}

OperationStamps OperationTrace::TakeStamps(uint64_t key) {
  OperationStamps stamps;
  stamps.clock = &clock_;
  stamps.started = clock_.Now();
  stamps.first_posted = stamps.all_posted = stamps.started;
  if (Candidate* const candidate = Find(key); candidate != nullptr) {
    stamps.first_posted = candidate->first_posted;
    stamps.all_posted = candidate->all_posted != 0 ? candidate->all_posted : stamps.started;
    *candidate = {};
  }
  return stamps;
}

void OperationTrace::Add(TracedOperation operation) {
  if (full()) return;
  operation.stamps.done = clock_.Now();
  operations_.push_back(operation);
}

void OperationTrace::WriteTo(const char* why, trace::Host* out) const {
  out->set_requested(requested_);
  if (!full()) {
    out->set_error(absl::StrCat("traced ", operations_.size(), " of ", requested_,
                                requested_ == 1 ? " operation: " : " operations: ", why));
  }
  for (const TracedOperation& operation : operations_) {
    trace::Operation* entry = out->add_operations();
    const OperationStamps& stamps = operation.stamps;
    entry->set_number(operation.number);
    entry->set_kind(std::string(Name(operation.kind)));
    entry->set_bytes(operation.bytes);
    entry->set_first_posted_ns(stamps.first_posted);
    entry->set_all_posted_ns(stamps.all_posted);
    entry->set_started_ns(stamps.started);
    entry->set_first_sent_ns(stamps.first_sent);
    entry->set_first_landed_ns(stamps.first_landed);
    entry->set_last_landed_ns(stamps.last_landed);
    entry->set_device_done_ns(stamps.device_done);
    entry->set_done_ns(stamps.done);
  }
}

}  // namespace mccs
