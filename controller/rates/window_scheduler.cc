#include "controller/rates/window_scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "controller/policy/period.h"

namespace mccs {
namespace {

// Limit of spans per report; a daemon stores fewer.
constexpr int kMostSpans = 1024;

// Nothing: the times are invalid.
std::optional<std::vector<WorkSpan>> SpansOf(const agent::v1::Activity& activity) {
  if (activity.span_ns_size() > 2 * kMostSpans) return std::nullopt;
  MonotonicNs at = activity.begin_ns();
  if (at < -kLatestTime || at > kLatestTime) return std::nullopt;
  std::vector<WorkSpan> spans;
  for (int i = 0; i < activity.span_ns_size(); ++i) {
    if (activity.span_ns(i) > static_cast<uint64_t>(kLatestTime - at)) return std::nullopt;
    const MonotonicNs end = at + static_cast<int64_t>(activity.span_ns(i));
    if (i % 2 == 0) spans.push_back({at, end});
    at = end;
  }
  return spans;
}

}  // namespace

void WindowScheduler::SetRules(std::vector<WaitRule> rules) {
  rules_ = std::move(rules);
  favoured_.clear();
  std::set<CommId> waiting;
  for (const WaitRule& rule : rules_) {
    waiting.insert(rule.waits);
    favoured_.insert(rule.favoured.begin(), rule.favoured.end());
  }
  std::erase_if(records_, [&](const auto& entry) { return !favoured_.contains(entry.first); });
  std::erase_if(states_, [&](const auto& entry) { return !waiting.contains(entry.first); });
  OnTimePassed();
}

void WindowScheduler::Report(const std::string& host, const agent::v1::Report& report) {
  const CommId id(report.comm_id());
  if (!favoured_.contains(id) || !report.has_activity()) return;
  std::optional<std::vector<WorkSpan>> spans = SpansOf(report.activity());
  const MonotonicNs measured = report.measured_ns();
  if (!spans || measured < -kLatestTime || measured > kLatestTime) return;
  Record record = {
      .spans = *std::move(spans), .ongoing = report.activity().ongoing(), .measured = measured};
  for (const WorkSpan& span : record.spans) record.busy_ns += span.end - span.begin;
  records_[id][host] = std::move(record);
  changed_.insert(id);
}

void WindowScheduler::Remove(CommId ended) {
  if (!favoured_.contains(ended)) return;
  records_.erase(ended);
  changed_.insert(ended);
}

std::vector<CommId> WindowScheduler::Update(MonotonicNs now, const HostClocks& clocks) {
  std::vector<CommId> updated;
  const std::set<CommId> news = std::exchange(changed_, {});
  if (news.empty()) return updated;
  std::map<std::vector<CommId>, absl::StatusOr<BurstPattern>> rhythms;
  for (const WaitRule& rule : rules_) {
    const bool concerned = std::any_of(rule.favoured.begin(), rule.favoured.end(),
                                       [&](CommId id) { return news.contains(id); });
    if (!concerned) continue;
    auto pattern = rhythms.find(rule.favoured);
    if (pattern == rhythms.end())
      pattern = rhythms.emplace(rule.favoured, FindBurstPattern(rule.favoured, now, clocks)).first;
    const absl::StatusOr<PlannedWindows> fresh = WindowsFor(rule, pattern->second, now, clocks);
    if (UpdateState(rule, fresh, now, &states_[rule.waits])) updated.push_back(rule.waits);
  }
  return updated;
}

absl::StatusOr<WindowScheduler::BurstPattern> WindowScheduler::FindBurstPattern(
    const std::vector<CommId>& favoured, MonotonicNs now, const HostClocks& clocks) const {
  std::vector<WorkSpan> all;
  BurstPattern pattern;
  bool ongoing = false;
  MonotonicNs received_at = -kLatestTime;
  for (const CommId id : favoured) {
    const auto known = records_.find(id);
    if (known == records_.end()) continue;
    const Record* least = nullptr;
    ClockReading clock;
    for (const auto& [host, record] : known->second) {
      const std::optional<ClockReading> reading = clocks.Read(host, now);
      if (!reading || (least != nullptr && least->busy_ns <= record.busy_ns)) continue;
      least = &record;
      clock = *reading;
    }
    if (least == nullptr) return absl::NotFoundError("the clocks of its hosts are not known yet");
    for (const WorkSpan& span : least->spans)
      all.push_back({clock.OnController(span.begin), clock.OnController(span.end)});
    pattern.clock_error_ns = std::max(pattern.clock_error_ns, clock.error_ns);
    ongoing |= least->ongoing;
    received_at = std::max(received_at, clock.OnController(least->measured));
  }
  if (all.empty()) return absl::NotFoundError("no report of its communication yet");
  MCCS_ASSIGN_OR_RETURN(
      pattern.period,
      FindPeriod(Union(std::move(all)), {.ongoing = ongoing, .horizon_ns = horizon_ns()}));
  if (now - received_at > 2 * pattern.period.period_ns + timeout_ns()) {
    return absl::NotFoundError(absl::StrCat("no communication for ",
                                            FormatMilliseconds(now - received_at), " (last period ",
                                            FormatMilliseconds(pattern.period.period_ns), ")"));
  }
  return pattern;
}

absl::StatusOr<PlannedWindows> WindowScheduler::WindowsFor(
    const WaitRule& rule, const absl::StatusOr<BurstPattern>& pattern, MonotonicNs now,
    const HostClocks& clocks) const {
  if (!pattern.ok()) return pattern.status();
  int64_t error_ns = 0;
  for (const std::string& host : rule.hosts) {
    const std::optional<ClockReading> reading = clocks.Read(host, now);
    if (!reading)
      return absl::NotFoundError(absl::StrCat("the clock of ", host, " is not known yet"));
    error_ns = std::max(error_ns, reading->error_ns);
  }
  return PlanWindows(pattern->period, pattern->clock_error_ns + error_ns);
}

bool WindowScheduler::UpdateState(const WaitRule& rule, const absl::StatusOr<PlannedWindows>& fresh,
                                  MonotonicNs now, WindowState* state) {
  const bool had = state->windows.has_value();
  if (fresh.ok() && had && now - state->since < kResendNs &&
      AreClose(*state->windows, *fresh, now, horizon_ns())) {
    return false;
  }
  const std::string name = absl::StrCat("communicator ", FormatCommId(rule.waits));
  const std::string whom = absl::StrCat(
      "communicator ", FormatCommId(rule.favoured.front()),
      rule.favoured.size() == 1 ? std::string()
                                : absl::StrCat(" and ", rule.favoured.size() - 1, " more"));
  WindowState next = {.windows = std::nullopt, .since = now};
  if (fresh.ok()) {
    next.windows = *fresh;
    next.text = absl::StrCat("for ", FormatMilliseconds(fresh->open_ns), " of each ",
                             FormatMilliseconds(fresh->period_ns), ", in the pauses of ", whom);
  } else {
    next.text = absl::StrCat("at any time: cannot compute send windows from ", whom, ": ",
                             std::string(fresh.status().message()));
  }
  if (had != fresh.ok() || state->text.empty()) log_->Info(name, " sends ", next.text);
  *state = std::move(next);
  return had || fresh.ok();
}

std::optional<PlannedWindows> WindowScheduler::WindowsOf(CommId id) const {
  const auto state = states_.find(id);
  return state != states_.end() ? state->second.windows : std::nullopt;
}

std::string WindowScheduler::Describe(const std::string& id) const {
  const auto state = std::find_if(states_.begin(), states_.end(), [&](const auto& entry) {
    return FormatCommId(entry.first) == id;
  });
  return state != states_.end() ? state->second.text : "";
}

}  // namespace mccs
