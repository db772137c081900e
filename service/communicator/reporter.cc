#include "service/communicator/reporter.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr int64_t kReportEveryNs = 500 * kNsPerMs;

}  // namespace

void Reporter::Report(const WorkDone& work, const absl::Status& failure) {
  if (!formation_.strategy.has_value()) return;
  const MonotonicNs now = env_.access.clock->Now();
  next_ = now + kReportEveryNs;
  reported_operations_ = work.operations;
  std::vector<BusySpan> spans(activity_.spans().begin(), activity_.spans().end());
  if (activity_.busy()) spans.back().end = now;
  env_.controller->Report(
      {.id = formation_.id,
       .epoch = formation_.strategy->epoch,
       .operations = work.operations,
       .bytes = work.bytes,
       .work = tally_.work(),
       .measured = now,
       .busy_spans = std::move(spans),
       .busy = activity_.busy(),
       .with_options = work.with_options,
       .captured_groups = work.captured_groups,
       .lanes = formation_.lanes != nullptr ? formation_.lanes->Stats()
                                            : std::vector<CommunicatorStats::Lane>(),
       .sent_bps = formation_.lanes != nullptr ? formation_.lanes->rate_bps() : 0,
       .memory_bps = env_.device->memory_bps(),
       .state = failure.ok() ? "active" : absl::StrCat("failed: ", std::string(failure.message())),
       .stalled_on = failure.ok() ? stalled_on_ : "",
       .change_error = change_error_,
       .rejected_epoch = rejected_epoch_});
}

void Reporter::Poll(const WorkDone& work) {
  if (!HasNews(work.operations) || env_.access.clock->Now() < next_) return;
  Report(work, absl::OkStatus());
}

MonotonicNs Reporter::NextDeadline(uint64_t operations) const {
  return HasNews(operations) ? next_ : std::numeric_limits<MonotonicNs>::max();
}

void Reporter::End(const absl::Status& failure) {
  env_.controller->Ended(formation_.id,
                         failure.ok() ? "destroyed" : std::string(failure.message()));
}

}  // namespace mccs
