#include "service/communicator/reporter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

static_assert(Reporter::kSpreadNs <= kShortestReportIntervalNs);

void AddWork(const WorkByKind& work, agent::v1::Report* out) {
  for (size_t kind = 0; kind < work.size(); ++kind) {
    if (work[kind].operations == 0) continue;
    agent::v1::KindWork* of_kind = out->add_work();
    of_kind->set_kind(std::string(Name(static_cast<OpKind>(kind))));
    of_kind->set_operations(work[kind].operations);
    of_kind->set_bytes(work[kind].bytes);
  }
}

void AddOptions(const CallsWithOptions& calls, agent::v1::Report* out) {
  if (calls.calls == 0) return;
  agent::v1::CallsWithOptions* options = out->mutable_with_options();
  options->set_calls(calls.calls);
  options->set_last_number(calls.last_number);
  options->set_deadline_us(calls.last.deadline_us);
  options->set_priority(calls.last.priority);
  options->set_criticality(static_cast<agent::v1::Criticality>(calls.last.criticality));
}

}  // namespace

void Reporter::Report(const WorkDone& work, const absl::Status& failure) {
  if (!formation_.strategy.has_value()) return;
  const MonotonicNs now = env_.access.clock->Now();
  next_ = NextTime(now);
  reported_operations_ = work.operations;
  agent::v1::Report report;
  report.set_comm_id(formation_.id.value());
  report.set_epoch(formation_.strategy->epoch.value());
  report.set_operations(work.operations);
  report.set_bytes(work.bytes);
  AddWork(tally_.work(), &report);
  report.set_measured_ns(now);
  activity_.Write(now, &report);
  AddOptions(work.with_options, &report);
  report.set_captured_groups(work.captured_groups);
  if (formation_.lanes != nullptr) {
    for (agent::v1::Lane& lane : formation_.lanes->Stats()) *report.add_lanes() = std::move(lane);
    report.set_sent_bps(formation_.lanes->rate_bps());
  }
  report.set_memory_bps(env_.device->memory_bps());
  report.set_state(failure.ok() ? "active"
                                : absl::StrCat("failed: ", std::string(failure.message())));
  if (failure.ok()) report.set_stalled_on(stalled_on_);
  report.set_change_error(change_error_);
  report.set_staged(staged_);
  report.set_rejected_epoch(rejected_epoch_.value());
  env_.controller->Report(report);
}

MonotonicNs Reporter::NextTime(MonotonicNs now) const {
  const auto offset = static_cast<int64_t>(formation_.id.value() % uint64_t{kSpreadNs});
  const int64_t interval = env_.controller->report_every_ns();
  const int64_t since = ((now - offset) % interval + interval) % interval;
  return now - since + interval;
}

void Reporter::Poll(const WorkDone& work) {
  if (!HasNews(work.operations) || env_.access.clock->Now() < next_) return;
  Report(work, absl::OkStatus());
}

MonotonicNs Reporter::NextDeadline(uint64_t operations) const {
  return HasNews(operations) ? next_ : kNever;
}

void Reporter::End(const absl::Status& failure) {
  env_.controller->Ended(formation_.id,
                         failure.ok() ? "destroyed" : std::string(failure.message()));
}

}  // namespace mccs
