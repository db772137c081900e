#include "service/messages/message_watcher.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr int kChecksPerWarnPeriod = 4;
constexpr size_t kMaxNamedCalls = 8;

// The missing action of the other rank.
const char* MissingAction(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return "not posted a receive for ";
    case OpKind::kPut:
      return "not registered its window, or has left, for ";
    case OpKind::kSignal:
      return "left before ";
    case OpKind::kWaitSignal:
      return "sent too few signals for ";
    default:
      return "not sent the data of ";
  }
}

}  // namespace

bool MessageWatcher::Poll(MonotonicNs now, const MessageLoop& messages) {
  if (!messages.has_pending_calls() && messages.quiescent()) {
    check_at_ = 0;
    check_.reset();
    calls_.clear();
    puts_.clear();
    if (stalled_on_.text.empty()) return false;
    options_.log->Info("communicator ", options_.name, ": point-to-point calls progress again");
    stalled_on_ = {};
    return true;
  }
  if (!check_.has_value()) {
    if (now < check_at_) return false;
    check_at_ = now + options_.warn_after_ns / kChecksPerWarnPeriod;
    check_.emplace(now);
  }
  if (!LookAtParts(messages)) return false;
  Report stalled_on = CompleteCheck();
  const bool changed = stalled_on.text != stalled_on_.text;
  if (changed) stalled_on_ = std::move(stalled_on);
  LogStall(now);
  return changed;
}

MonotonicNs MessageWatcher::NextDeadline() const {
  if (check_.has_value()) return check_->began;  // the rest is due
  return check_at_ != 0 ? check_at_ : kNever;
}

bool MessageWatcher::LookAtParts(const MessageLoop& messages) {
  const int64_t end = cost_ + kCostPerTurn;
  while (check_->part < messages.waiting_parts() && check_->found() < kMostFound) {
    if (cost_ >= end) return false;
    WaitingCalls waiting;
    messages.AddWaiting(check_->part++, waiting);
    for (const OpenMessage& call : waiting.calls()) Note(call);
    for (const UncopiedPut& put : waiting.puts()) Note(put);
    const size_t found = waiting.calls().size() + waiting.puts().size();
    cost_ += static_cast<int64_t>(waiting.looks()) * kCostPerLook +
             static_cast<int64_t>(found) * kCostPerCall;
  }
  return true;
}

template <typename Key, typename Map>
bool MessageWatcher::HasStalled(const Key& key, uint64_t number, const Map& before,
                                Map* now) const {
  const auto known = before.find(key);
  const bool same = known != before.end() && known->second.number == number;
  const MonotonicNs since = same ? known->second.since : check_->began;
  (*now)[key] = {.number = number, .since = since};
  return check_->began - since >= options_.warn_after_ns;
}

void MessageWatcher::Note(const OpenMessage& call) {
  const PairAndKind key{call.pair, call.call->kind};
  if (!HasStalled(key, call.number, calls_, &check_->calls)) return;
  ++check_->stalls;
  auto& named = check_->stalled_calls;
  const std::tuple place{call.pair.source, call.pair.destination, call.call->kind};
  if (named.size() == kMaxNamedCalls) {
    if (place > named.rbegin()->first) return;
    named.erase(std::prev(named.end()));
  }
  const Rank other = call.other();
  const std::string host = options_.host_of(other);
  named[place] = {
      absl::StrCat("rank ", call.caller().value(), " waits for rank ", other.value(), " on ", host,
                   ", which has ", MissingAction(call.call->kind), Describe(call)),
      {other.value(), host}};
}

void MessageWatcher::Note(const UncopiedPut& put) {
  if (!HasStalled(put.pair, put.part, puts_, &check_->puts)) return;
  ++check_->stalls;
  if (check_->stalled_puts.size() == kMaxNamedCalls) return;
  const Rank rank = put.pair.destination;
  const std::string host = options_.host_of(rank);
  check_->stalled_puts.push_back(
      {absl::StrCat("process ", put.process, " of rank ", rank.value(), " on ", host,
                    " has not copied a put of rank ", put.pair.source.value(), " into window #",
                    put.window,
                    ": a call of CUDA, such as cudaFree, may hold up its thread for copies"),
       {rank.value(), host}});
}

MessageWatcher::Report MessageWatcher::CompleteCheck() {
  std::vector<Stall> named;
  for (auto& [place, stall] : check_->stalled_calls) named.push_back(std::move(stall));
  for (Stall& stall : check_->stalled_puts) named.push_back(std::move(stall));
  named.resize(std::min(named.size(), kMaxNamedCalls));
  Report report;
  std::set<AwaitedRank> awaited;
  for (Stall& stall : named) {
    absl::StrAppend(&report.text, report.text.empty() ? "" : "; ", stall.text);
    awaited.insert(std::move(stall.awaited));
  }
  if (check_->stalls > named.size()) {
    absl::StrAppend(&report.text, "; and ", check_->found() < kMostFound ? "" : "at least ",
                    check_->stalls - named.size(), " more point-to-point calls wait");
  }
  report.awaited.assign(awaited.begin(), awaited.end());
  calls_ = std::move(check_->calls);
  puts_ = std::move(check_->puts);
  check_.reset();
  return report;
}

void MessageWatcher::LogStall(MonotonicNs now) {
  if (stalled_on_.text.empty() || !in_log_.IsDue(stalled_on_.text, now)) return;
  options_.log->Warning("communicator ", options_.name, ": ", stalled_on_.text);
}

}  // namespace mccs
