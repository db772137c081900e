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
    const std::vector<int> absent = Own(entered.not_entered(), ranks);
    const std::vector<int> late = Own(entered.not_reached(), ranks);
    if (is_behind) {
      if (call.empty()) call = std::string(StatusFromPeer(0, entered.call()).message());
      const std::string name = members.HostName(host);
      for (const std::vector<int>& ranks_behind : {absent, late}) {
        for (const int rank : ranks_behind) stalled_on.awaited.push_back({rank, name});
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
  }
  if (reasons.empty() || waiting.empty()) {
    stalled_on.awaited.clear();
    return stalled_on;
  }
  std::sort(stalled_on.awaited.begin(), stalled_on.awaited.end());
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
    waiting_since_ = 0;
    if (!stalled_on_.text.empty() && operation > stalled_on_.operation) {
      options_.log->Info("communicator ", options_.name, ": operation #", stalled_on_.operation,
                         " has completed");
      stalled_on_ = {};
      changed_ = true;
    }
  }
  if (!waiting) {
    waiting_since_ = report_at_ = 0;
  } else if (waiting_since_ == 0) {
    waiting_since_ = now;
    report_at_ = now + options_.warn_after_ns;
  } else if (now >= report_at_) {
    OnWarnTimeout(now);
  }
  if (request_open_ && (now >= answers_until_ || Unanswered().empty())) FinishRequest(now);
  return std::exchange(changed_, false);
}

MonotonicNs HangWatcher::NextDeadline() const {
  MonotonicNs next = report_at_ != 0 ? report_at_ : kNever;
  if (request_open_) next = std::min(next, answers_until_);
  return next;
}

void HangWatcher::OnWarnTimeout(MonotonicNs now) {
  report_at_ = now + options_.warn_after_ns;
  if (options_.star->leads()) {
    SendRequest(now);
    return;
  }
  peer::Message message;
  message.mutable_stalled()->set_operation(operation_);
  options_.star->SendToLeader(message);
}

absl::StatusOr<bool> HangWatcher::OnMessage(const StarMessage& received, MonotonicNs now) {
  const peer::Message& message = received.message;
  const bool leads = options_.star->leads();
  if (message.has_stalled()) {
    if (leads) SendRequest(now);
  } else if (message.has_entered_request()) {
    if (leads) return true;
    peer::Message answer;
    *answer.mutable_entered() = options_.local_entered();
    answer.mutable_entered()->set_request_id(message.entered_request().request_id());
    options_.star->SendToLeader(answer);
  } else if (message.has_entered()) {
    if (leads) MCCS_RETURN_IF_ERROR(TakeAnswer(received.from, message.entered()));
  } else if (message.has_stalled_on()) {
    const peer::StalledOn& stalled_on = message.stalled_on();
    if (!leads) {
      SetStall(
          {stalled_on.operation(), std::string(StatusFromPeer(0, stalled_on.message()).message())},
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
  answers_.entered[options_.members->self] = options_.local_entered();
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
  const StalledOn stalled_on = DescribeStall(*options_.members, std::exchange(answers_, {}));
  if (stalled_on.text.empty())
    return;  // A rank has arrived meanwhile, or the operation itself takes long.
  peer::Message message;
  message.mutable_stalled_on()->set_operation(stalled_on.operation);
  message.mutable_stalled_on()->set_message(stalled_on.text);
  options_.star->Broadcast(message);
  SetStall(stalled_on, now);
}

void HangWatcher::SetStall(const StalledOn& stalled_on, MonotonicNs now) {
  if (in_log_.IsDue(stalled_on.text, now)) {
    options_.log->Warning("communicator ", options_.name, ": ", stalled_on.text);
  }
  if (stalled_on.operation < operation_) return;  // This host has completed its part.
  changed_ |= stalled_on_.text != stalled_on.text;
  stalled_on_ = stalled_on;
}

}  // namespace mccs
