#include "controller/window_keeper.h"

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
std::optional<std::vector<WorkSpan>> SpansOf(const agent::Activity& activity) {
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

void WindowKeeper::SetRules(std::vector<WaitRule> rules) {
  rules_ = std::move(rules);
  favoured_.clear();
  std::set<CommId> waiting;
  for (const WaitRule& rule : rules_) {
    waiting.insert(rule.waits);
    favoured_.insert(rule.favoured.begin(), rule.favoured.end());
  }
  std::erase_if(records_, [&](const auto& entry) { return !favoured_.contains(entry.first); });
  std::erase_if(held_, [&](const auto& entry) { return !waiting.contains(entry.first); });
}

bool WindowKeeper::Hear(const std::string& host, const agent::Report& report) {
  const CommId id(report.comm_id());
  if (!favoured_.contains(id) || !report.has_activity()) return false;
  std::optional<std::vector<WorkSpan>> spans = SpansOf(report.activity());
  const MonotonicNs measured = report.measured_ns();
  if (!spans || measured < -kLatestTime || measured > kLatestTime) return false;
  Record record = {
      .spans = *std::move(spans), .goes_on = report.activity().goes_on(), .measured = measured};
  for (const WorkSpan& span : record.spans) record.busy_ns += span.end - span.begin;
  records_[id][host] = std::move(record);
  news_.insert(id);
  return true;
}

bool WindowKeeper::Forget(CommId ended) {
  if (!favoured_.contains(ended)) return false;
  records_.erase(ended);
  news_.insert(ended);
  return true;
}

bool WindowKeeper::UpdateAll(MonotonicNs now, const HostClocks& clocks) {
  news_ = favoured_;
  return Update(now, clocks);
}

bool WindowKeeper::Update(MonotonicNs now, const HostClocks& clocks) {
  const std::set<CommId> news = std::exchange(news_, {});
  std::map<std::vector<CommId>, absl::StatusOr<Rhythm>> rhythms;
  bool changed = false;
  for (const WaitRule& rule : rules_) {
    const bool concerned = std::any_of(rule.favoured.begin(), rule.favoured.end(),
                                       [&](CommId id) { return news.contains(id); });
    if (!concerned) continue;
    auto rhythm = rhythms.find(rule.favoured);
    if (rhythm == rhythms.end())
      rhythm = rhythms.emplace(rule.favoured, RhythmOf(rule.favoured, now, clocks)).first;
    changed |= Hold(rule, WindowsFor(rule, rhythm->second, now, clocks), now, &held_[rule.waits]);
  }
  return changed;
}

absl::StatusOr<WindowKeeper::Rhythm> WindowKeeper::RhythmOf(const std::vector<CommId>& favoured,
                                                            MonotonicNs now,
                                                            const HostClocks& clocks) const {
  std::vector<WorkSpan> all;
  Rhythm rhythm;
  bool goes_on = false;
  MonotonicNs heard = -kLatestTime;
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
    rhythm.clock_error_ns = std::max(rhythm.clock_error_ns, clock.error_ns);
    goes_on |= least->goes_on;
    heard = std::max(heard, clock.OnController(least->measured));
  }
  if (all.empty()) return absl::NotFoundError("no report of its communication yet");
  MCCS_ASSIGN_OR_RETURN(rhythm.period, FindPeriod(Union(std::move(all)),
                                                  {.goes_on = goes_on, .horizon_ns = kHorizonNs}));
  if (now - heard > 2 * rhythm.period.period_ns + kPatienceNs) {
    return absl::NotFoundError(absl::StrCat("it has not communicated for ",
                                            FormatMilliseconds(now - heard), "; its period was ",
                                            FormatMilliseconds(rhythm.period.period_ns)));
  }
  return rhythm;
}

absl::StatusOr<PlannedWindows> WindowKeeper::WindowsFor(const WaitRule& rule,
                                                        const absl::StatusOr<Rhythm>& rhythm,
                                                        MonotonicNs now,
                                                        const HostClocks& clocks) const {
  if (!rhythm.ok()) return rhythm.status();
  int64_t error_ns = 0;
  for (const std::string& host : rule.hosts) {
    const std::optional<ClockReading> reading = clocks.Read(host, now);
    if (!reading)
      return absl::NotFoundError(absl::StrCat("the clock of ", host, " is not known yet"));
    error_ns = std::max(error_ns, reading->error_ns);
  }
  return WindowsBetween(rhythm->period, rhythm->clock_error_ns + error_ns);
}

bool WindowKeeper::Hold(const WaitRule& rule, const absl::StatusOr<PlannedWindows>& fresh,
                        MonotonicNs now, Held* held) {
  const bool had = held->windows.has_value();
  if (fresh.ok() && had && now - held->since < kRenewNs &&
      IsNearlyTheSame(*held->windows, *fresh, now, kHorizonNs)) {
    return false;
  }
  const std::string name = absl::StrCat("communicator ", FormatCommId(rule.waits));
  const std::string whom =
      absl::StrCat(rule.favoured.size() == 1 ? "communicator " : "communicators starting with ",
                   FormatCommId(rule.favoured.front()));
  Held next = {.windows = std::nullopt, .since = now};
  if (fresh.ok()) {
    next.windows = *fresh;
    next.text = absl::StrCat("for ", FormatMilliseconds(fresh->open_ns), " of each ",
                             FormatMilliseconds(fresh->period_ns), ", in the pauses of ", whom);
  } else {
    next.text = absl::StrCat("at any time; ", whom, ": ", std::string(fresh.status().message()));
  }
  if (had != fresh.ok() || held->text.empty()) log_->Info(name, " sends ", next.text);
  *held = std::move(next);
  return had || fresh.ok();
}

void WindowKeeper::ApplyTo(std::vector<PlannedPace>* paces) const {
  for (PlannedPace& pace : *paces) {
    const auto held = held_.find(pace.id);
    if (held != held_.end()) pace.windows = held->second.windows;
  }
}

std::string WindowKeeper::Describe(const std::string& id) const {
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const auto& entry) {
    return FormatCommId(entry.first) == id;
  });
  return held != held_.end() ? held->second.text : "";
}

}  // namespace mccs
