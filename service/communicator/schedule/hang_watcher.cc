#include "service/communicator/schedule/hang_watcher.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// How long the leader waits for answers of the other hosts.
constexpr int64_t kAnswerTimeoutNs = kNsPerSec;
// How long another host waits for a request of the leader, whose last one may still be open.
constexpr int64_t kLeaderTimeoutNs = 2 * kAnswerTimeoutNs;
// Minimum interval of the leader's requests, whatever the number of stalled hosts.
constexpr int64_t kAskEveryNs = kMinWarnAfterNs;
constexpr size_t kMaxNamedRanks = 16;

// "rank 3", "ranks 0, 1, 2", with "and 40 more" if there are many.
std::string NameRanks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t named = std::min(ranks.size(), kMaxNamedRanks);
  for (size_t i = 0; i < named; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", ranks[i]);
  if (named < ranks.size()) absl::StrAppend(&text, " and ", ranks.size() - named, " more");
  return text;
}

void AddReason(const std::vector<int>& ranks, const std::string& host, const char* one,
               const char* several, std::vector<std::string>& reasons) {
  if (ranks.empty()) return;
  reasons.push_back(
      absl::StrCat(NameRanks(ranks), " on ", host, ", ", ranks.size() == 1 ? one : several));
}

// Keeps only the host's own ranks: a host may not report others.
std::vector<int> Own(const google::protobuf::RepeatedField<int32_t>& reported,
                     const std::vector<Rank>& ranks) {
  std::vector<int> own;
  for (const int32_t rank : reported) {
    if (std::find(ranks.begin(), ranks.end(), Rank(rank)) != ranks.end()) own.push_back(rank);
  }
  std::sort(own.begin(), own.end());
  own.erase(std::unique(own.begin(), own.end()), own.end());
  return own;
}

bool Has(const std::vector<int>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank.value()) != ranks.end();
}

}  // namespace

StalledOn DescribeStall(const Membership& members, const HostAnswers& answers) {
  StalledOn stalled_on;
  if (answers.entered.empty()) return stalled_on;
  stalled_on.operation = std::numeric_limits<uint64_t>::max();
  for (const auto& [host, entered] : answers.entered) {
    stalled_on.operation = std::min(stalled_on.operation, entered.operation());
  }
  std::string call;
  std::vector<int> waiting;
  std::vector<std::string> reasons;
  for (const auto& [host, entered] : answers.entered) {
    const std::vector<Rank>& ranks = members.layout.hosts[static_cast<size_t>(host.value())];
    const bool is_behind = entered.operation() == stalled_on.operation;
    stalled_on.waited_ms = std::max<uint64_t>(stalled_on.waited_ms, entered.waited_ms());
    const std::vector<int> absent = Own(entered.not_entered(), ranks);
    const std::vector<int> late = Own(entered.not_reached(), ranks);
    if (is_behind) {
      if (call.empty()) call = std::string(StatusFromPeer(0, entered.call()).message());
      const std::string name = members.HostName(host);
      for (const std::vector<int>& ranks_behind : {absent, late}) {
        for (const int rank : ranks_behind) stalled_on.ranks.push_back({rank, name});
      }
      AddReason(absent, name, "which has not called it", "which have not called it", reasons);
      AddReason(late, name, "whose stream has not reached it", "whose streams have not reached it",
                reasons);
    }
    for (const Rank rank : ranks) {
      if (!Has(absent, rank) && !Has(late, rank)) waiting.push_back(rank.value());
    }
  }
  for (const HostIndex host : answers.unanswered) {
    reasons.push_back(
        absl::StrCat("host ", members.HostName(host), ", whose daemon has not answered"));
    stalled_on.hosts.push_back({members.HostName(host), StallCause::kDaemon});
  }
  if (reasons.empty() || waiting.empty()) return {.operation = stalled_on.operation};
  stalled_on.ranks_missing = !stalled_on.ranks.empty();
  std::sort(stalled_on.ranks.begin(), stalled_on.ranks.end());
  if (stalled_on.ranks.size() > Stalls::kMost) stalled_on.ranks.resize(Stalls::kMost);
  if (stalled_on.hosts.size() > Stalls::kMost) stalled_on.hosts.resize(Stalls::kMost);
  std::sort(waiting.begin(), waiting.end());
  stalled_on.text = absl::StrCat("operation #", stalled_on.operation, call.empty() ? "" : " (",
                                 call, call.empty() ? "" : ")", ": ", NameRanks(waiting),
                                 waiting.size() == 1 ? " waits for " : " wait for ");
  for (size_t i = 0; i < reasons.size(); ++i) {
    absl::StrAppend(&stalled_on.text, i == 0 ? "" : "; and for ", reasons[i]);
  }
  return stalled_on;
}

bool HangWatcher::Poll(MonotonicNs now, uint64_t operation, bool waiting) {
  if (operation != operation_) {
    operation_ = operation;
    waiting_since_ = report_at_ = leader_asks_until_ = 0;
    ranks_missing_ = false;
    if (!stalled_on_.text.empty() && operation > stalled_on_.operation) {
      options_.log->Info("communicator ", options_.name, ": operation #", stalled_on_.operation,
                         " has completed");
      stalled_on_ = {};
      changed_ = true;
    }
  }
  if (!waiting) {
    waiting_since_ = 0;
  } else if (waiting_since_ == 0) {
    waiting_since_ = now;
  }
  // The leader asks until the stall has ended, also if this host does not wait.
  if (!waiting && !announced_) {
    report_at_ = leader_asks_until_ = 0;
  } else if (report_at_ == 0) {
    report_at_ = NextReport(now);
  } else if (now >= report_at_) {
    OnReportTimeout(now);
  }
  if (leader_asks_until_ != 0 && now >= leader_asks_until_) OnLeaderSilent(now);
  if (request_open_ && (now >= answers_until_ || Unanswered().empty())) FinishRequest(now);
  return std::exchange(changed_, false);
}

MonotonicNs HangWatcher::NextDeadline() const {
  MonotonicNs next = report_at_ != 0 ? report_at_ : kNever;
  if (leader_asks_until_ != 0) next = std::min(next, leader_asks_until_);
  if (request_open_) next = std::min(next, answers_until_);
  return next;
}

void HangWatcher::OnReportTimeout(MonotonicNs now) {
  report_at_ = NextReport(now);
  if (options_.star->leads()) {
    SendRequest(now);
    return;
  }
  peer::Message message;
  message.mutable_stalled()->set_operation(operation_);
  options_.star->SendToLeader(message);
  if (leader_asks_until_ == 0) leader_asks_until_ = now + kLeaderTimeoutNs;
}

MonotonicNs HangWatcher::NextReport(MonotonicNs now) const {
  const int64_t warn_after_ns = options_.warn_after_ns;
  MonotonicNs next = now + std::min(warn_after_ns, kStalledAfterNs);
  for (const int64_t wait : {warn_after_ns, kStalledAfterNs}) {
    if (waiting_since_ != 0 && waiting_since_ + wait > now)
      next = std::min(next, waiting_since_ + wait);
  }
  return next;
}

peer::Entered HangWatcher::Entered(MonotonicNs now) const {
  peer::Entered entered = options_.local_entered();
  if (waiting_since_ != 0)
    entered.set_waited_ms(static_cast<uint64_t>(now - waiting_since_) / kNsPerMs);
  return entered;
}

void HangWatcher::OnLeaderSilent(MonotonicNs now) {
  const MonotonicNs until = std::exchange(leader_asks_until_, 0);
  if (asked_at_ >= until - 2 * kLeaderTimeoutNs) return;
  leader_is_silent_ = true;
  HostAnswers answers{.entered = {{options_.members->self, Entered(now)}},
                      .unanswered = {options_.members->leader}};
  SetStall(DescribeStall(*options_.members, answers), now);
}

absl::StatusOr<bool> HangWatcher::OnMessage(const StarMessage& received, MonotonicNs now) {
  const peer::Message& message = received.message;
  const bool leads = options_.star->leads();
  if (message.has_stalled()) {
    if (leads) SendRequest(now);
  } else if (message.has_entered_request()) {
    if (leads) return true;
    asked_at_ = now;
    if (std::exchange(leader_is_silent_, false)) SetStall({}, now);
    peer::Message answer;
    *answer.mutable_entered() = Entered(now);
    answer.mutable_entered()->set_request_id(message.entered_request().request_id());
    options_.star->SendToLeader(answer);
  } else if (message.has_entered()) {
    if (leads) MCCS_RETURN_IF_ERROR(TakeAnswer(received.from, message.entered()));
  } else if (message.has_stalled_on()) {
    const peer::StalledOn& stalled_on = message.stalled_on();
    if (!leads) {
      // No later one stalls: this host has not completed its own.
      SetStall({.operation = std::min(stalled_on.operation(), operation_),
                .text = std::string(StatusFromPeer(0, stalled_on.message()).message()),
                .waited_ms = stalled_on.waited_ms(),
                .ranks_missing = stalled_on.ranks_missing()},
               now);
    }
  } else {
    return false;
  }
  return true;
}

// ---- The leader's request -----------------------------------------------------------------------

void HangWatcher::SendRequest(MonotonicNs now) {
  if (request_open_ || now < ask_again_at_) return;
  request_open_ = true;
  ++question_;
  answers_until_ = now + kAnswerTimeoutNs;
  ask_again_at_ = now + kAskEveryNs;
  answers_ = {};
  answers_.entered[options_.members->self] = Entered(now);
  peer::Message message;
  message.mutable_entered_request()->set_request_id(question_);
  options_.star->Broadcast(message);
}

absl::Status HangWatcher::TakeAnswer(HostIndex from, const peer::Entered& entered) {
  const auto ranks =
      static_cast<int>(options_.members->layout.hosts[static_cast<size_t>(from.value())].size());
  if (entered.not_entered_size() > ranks || entered.not_reached_size() > ranks) {
    return absl::DataLossError(absl::StrCat(
        "invalid answer: ", entered.not_entered_size(), " ranks in not_entered and ",
        entered.not_reached_size(), " in not_reached; the host has ", ranks, " ranks"));
  }
  if (request_open_ && entered.request_id() == question_) answers_.entered[from] = entered;
  return absl::OkStatus();
}

// A host whose ranks have all left need not answer.
std::vector<HostIndex> HangWatcher::Unanswered() const {
  std::vector<HostIndex> unanswered;
  for (int h = 0; h < options_.members->hosts(); ++h) {
    const HostIndex host(h);
    if (!answers_.entered.contains(host) && !options_.star->HasDeparted(host))
      unanswered.push_back(host);
  }
  return unanswered;
}

void HangWatcher::FinishRequest(MonotonicNs now) {
  request_open_ = false;
  answers_.unanswered = Unanswered();
  StalledOn stalled_on = DescribeStall(*options_.members, std::exchange(answers_, {}));
  // Empty: a rank has arrived meanwhile, or the operation itself takes long.
  const bool stalls = !stalled_on.text.empty();
  if (!stalls && !announced_) return;
  announced_ = stalls;
  peer::Message message;
  message.mutable_stalled_on()->set_operation(stalled_on.operation);
  message.mutable_stalled_on()->set_message(stalled_on.text);
  message.mutable_stalled_on()->set_waited_ms(stalled_on.waited_ms);
  message.mutable_stalled_on()->set_ranks_missing(stalled_on.ranks_missing);
  options_.star->Broadcast(message);
  SetStall(std::move(stalled_on), now);
}

void HangWatcher::SetStall(StalledOn stalled_on, MonotonicNs now) {
  ranks_missing_ = stalled_on.ranks_missing;
  const bool ends = stalled_on.text.empty();
  if (ends && !stalled_on_.text.empty()) {
    options_.log->Info("communicator ", options_.name, ": operation #", stalled_on_.operation,
                       " is not stalled any more");
  }
  const auto has_waited = [&](int64_t ns) {
    return stalled_on.waited_ms >= static_cast<uint64_t>(ns / kNsPerMs);
  };
  if (!ends && has_waited(options_.warn_after_ns) && in_log_.IsDue(stalled_on.text, now)) {
    options_.log->Warning("communicator ", options_.name, ": ", stalled_on.text);
  }
  // This host has completed its part; the leader has the metrics of all.
  if (!ends && stalled_on.operation < operation_ && !options_.star->leads()) return;
  if (!has_waited(kStalledAfterNs)) {
    stalled_on.ranks.clear();
    stalled_on.hosts.clear();
  }
  changed_ |= stalled_on_.text != stalled_on.text || stalled_on_.ranks != stalled_on.ranks ||
              stalled_on_.hosts != stalled_on.hosts;
  stalled_on_ = std::move(stalled_on);
}

}  // namespace mccs
