#include "service/communicator/hang_watcher.h"

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
std::vector<int> Own(const google::protobuf::RepeatedField<int32_t>& said,
                     const std::vector<Rank>& ranks) {
  std::vector<int> own;
  for (const int32_t rank : said) {
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

HeldUp DescribeStall(const Membership& members, const HostAnswers& answers) {
  HeldUp held_up;
  if (answers.entered.empty()) return held_up;
  held_up.operation = std::numeric_limits<uint64_t>::max();
  for (const auto& [host, entered] : answers.entered) {
    held_up.operation = std::min(held_up.operation, entered.operation());
  }
  std::string call;
  std::vector<int> waiting;
  std::vector<std::string> reasons;
  for (const auto& [host, entered] : answers.entered) {
    const std::vector<Rank>& ranks = members.layout.hosts[static_cast<size_t>(host.value())];
    const bool is_behind = entered.operation() == held_up.operation;
    const std::vector<int> absent = Own(entered.absent(), ranks);
    const std::vector<int> late = Own(entered.late(), ranks);
    if (is_behind) {
      if (call.empty()) call = std::string(StatusFromPeer(0, entered.call()).message());
      const std::string name = members.HostName(host);
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
  if (reasons.empty() || waiting.empty()) return held_up;
  std::sort(waiting.begin(), waiting.end());
  held_up.text = absl::StrCat("operation #", held_up.operation, call.empty() ? "" : " (", call,
                              call.empty() ? "" : ")", ": ", NameRanks(waiting),
                              waiting.size() == 1 ? " waits for " : " wait for ");
  for (size_t i = 0; i < reasons.size(); ++i) {
    absl::StrAppend(&held_up.text, i == 0 ? "" : "; and for ", reasons[i]);
  }
  return held_up;
}

bool HangWatcher::Poll(MonotonicNs now, uint64_t operation, bool waiting) {
  if (operation != operation_) {
    operation_ = operation;
    waiting_since_ = 0;
    if (!held_up_.text.empty() && operation > held_up_.operation) {
      options_.log->Info("communicator ", options_.name, ": operation #", held_up_.operation,
                         " has completed");
      held_up_ = {};
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
  } else if (message.has_ask_entered()) {
    if (leads) return true;
    peer::Message answer;
    *answer.mutable_entered() = options_.local_entered();
    answer.mutable_entered()->set_question(message.ask_entered().question());
    options_.star->SendToLeader(answer);
  } else if (message.has_entered()) {
    if (leads) MCCS_RETURN_IF_ERROR(TakeAnswer(received.from, message.entered()));
  } else if (message.has_held_up()) {
    const peer::HeldUp& held_up = message.held_up();
    if (!leads) {
      SetStall({held_up.operation(), std::string(StatusFromPeer(0, held_up.text()).message())},
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
  message.mutable_ask_entered()->set_question(question_);
  options_.star->Broadcast(message);
}

absl::Status HangWatcher::TakeAnswer(HostIndex from, const peer::Entered& entered) {
  const auto ranks =
      static_cast<int>(options_.members->layout.hosts[static_cast<size_t>(from.value())].size());
  if (entered.absent_size() > ranks || entered.late_size() > ranks) {
    return absl::DataLossError(absl::StrCat("invalid answer: ", entered.absent_size(),
                                            " absent and ", entered.late_size(),
                                            " late ranks, where the host has ", ranks));
  }
  if (request_open_ && entered.question() == question_) answers_.entered[from] = entered;
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
  const HeldUp held_up = DescribeStall(*options_.members, std::exchange(answers_, {}));
  if (held_up.text.empty())
    return;  // A rank has arrived meanwhile, or the operation itself takes long.
  peer::Message message;
  message.mutable_held_up()->set_operation(held_up.operation);
  message.mutable_held_up()->set_text(held_up.text);
  options_.star->Broadcast(message);
  SetStall(held_up, now);
}

void HangWatcher::SetStall(const HeldUp& held_up, MonotonicNs now) {
  if (in_log_.IsDue(held_up.text, now)) {
    options_.log->Warning("communicator ", options_.name, ": ", held_up.text);
  }
  if (held_up.operation < operation_) return;  // This host has completed its part.
  changed_ |= held_up_.text != held_up.text;
  held_up_ = held_up;
}

}  // namespace mccs
