#include "service/messages/message_watcher.h"

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
    waiting_.clear();
    uncopied_.clear();
    if (stalled_on_.text.empty()) return false;
    options_.log->Info("communicator ", options_.name, ": point-to-point calls progress again");
    stalled_on_ = {};
    return true;
  }
  if (now < check_at_) return false;
  check_at_ = now + options_.warn_after_ns / kChecksPerWarnPeriod;
  const std::vector<OpenMessage> unmatched = messages.Unmatched();
  const std::vector<UncopiedPut> uncopied = messages.Uncopied();
  cost_ += static_cast<int64_t>(unmatched.size() + uncopied.size()) * kCostPerCall;
  UpdateWaiting(now, unmatched, uncopied);
  Stall stalled_on = Describe(now, unmatched, uncopied);
  if (stalled_on.text == stalled_on_.text) {
    LogStall(now);
    return false;
  }
  stalled_on_ = std::move(stalled_on);
  LogStall(now);
  return true;
}

MonotonicNs MessageWatcher::NextDeadline() const { return check_at_ != 0 ? check_at_ : kNever; }

// Calls and puts that were already waiting at the previous check keep their start time.
void MessageWatcher::UpdateWaiting(MonotonicNs now, const std::vector<OpenMessage>& unmatched,
                                   const std::vector<UncopiedPut>& uncopied) {
  const auto note = [now](auto& waiting, const auto& before, const auto& key, uint64_t number) {
    const auto known = before.find(key);
    const bool same = known != before.end() && known->second.number == number;
    waiting[key] = {.number = number, .since = same ? known->second.since : now};
  };
  const auto waiting_before = std::exchange(waiting_, {});
  for (const OpenMessage& message : unmatched) {
    note(waiting_, waiting_before, PairAndKind{message.pair, message.call->kind}, message.number);
  }
  const auto uncopied_before = std::exchange(uncopied_, {});
  for (const UncopiedPut& put : uncopied) note(uncopied_, uncopied_before, put.pair, put.part);
}

MessageWatcher::Stall MessageWatcher::Describe(MonotonicNs now,
                                               const std::vector<OpenMessage>& unmatched,
                                               const std::vector<UncopiedPut>& uncopied) const {
  std::string text;
  std::set<AwaitedRank> awaited;
  size_t named = 0;
  for (const OpenMessage& message : unmatched) {
    const MonotonicNs since = waiting_.at({message.pair, message.call->kind}).since;
    if (now - since < options_.warn_after_ns || ++named > kMaxNamedCalls) continue;
    const Rank other = message.other();
    awaited.insert({other.value(), options_.host_of(other)});
    absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", message.caller().value(),
                    " waits for rank ", other.value(), " on ", options_.host_of(other),
                    ", which has ", MissingAction(message.call->kind), mccs::Describe(message));
  }
  for (const UncopiedPut& put : uncopied) {
    const MonotonicNs since = uncopied_.at(put.pair).since;
    if (now - since < options_.warn_after_ns || ++named > kMaxNamedCalls) continue;
    const Rank rank = put.pair.destination;
    awaited.insert({rank.value(), options_.host_of(rank)});
    absl::StrAppend(&text, text.empty() ? "" : "; ", "process ", put.process, " of rank ",
                    rank.value(), " on ", options_.host_of(rank), " has not copied a put of rank ",
                    put.pair.source.value(), " into window #", put.window,
                    ": a call of CUDA, such as cudaFree, may hold up its thread for copies");
  }
  if (named > kMaxNamedCalls) {
    absl::StrAppend(&text, "; and ", named - kMaxNamedCalls, " more point-to-point calls wait");
  }
  return {.text = std::move(text), .awaited = {awaited.begin(), awaited.end()}};
}

void MessageWatcher::LogStall(MonotonicNs now) {
  if (stalled_on_.text.empty() || !in_log_.IsDue(stalled_on_.text, now)) return;
  options_.log->Warning("communicator ", options_.name, ": ", stalled_on_.text);
}

}  // namespace mccs
