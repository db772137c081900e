#include "service/messages/message_watcher.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr int kLooksPerPatience = 4;
constexpr size_t kMaxNamedCalls = 8;

// What the other rank has not done.
const char* Lack(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return "no receive for ";
    case OpKind::kPut:
      return "not registered its window, or has left, for ";
    case OpKind::kSignal:
      return "left before ";
    case OpKind::kWaitSignal:
      return "sent too few signals for ";
    default:
      return "sent nothing for ";
  }
}

}  // namespace

bool MessageWatcher::Poll(MonotonicNs now, const MessageLoop& messages) {
  if (!messages.wants_more()) {
    look_at_ = 0;
    waiting_.clear();
    if (held_up_.empty()) return false;
    options_.log->Info("communicator ", options_.name, ": point-to-point calls progress again");
    held_up_.clear();
    return true;
  }
  if (now < look_at_) return false;
  look_at_ = now + options_.patience_ns / kLooksPerPatience;
  const std::vector<OpenMessage> unanswered = messages.Unanswered();
  Look(now, unanswered);
  std::string held_up = Describe(now, unanswered);
  if (held_up == held_up_) {
    Say(now);
    return false;
  }
  held_up_ = std::move(held_up);
  Say(now);
  return true;
}

MonotonicNs MessageWatcher::NextDeadline() const {
  return look_at_ != 0 ? look_at_ : std::numeric_limits<MonotonicNs>::max();
}

// A call that was already waiting at the previous check keeps its start time.
void MessageWatcher::Look(MonotonicNs now, const std::vector<OpenMessage>& unanswered) {
  const auto before = std::exchange(waiting_, {});
  for (const OpenMessage& message : unanswered) {
    const PairAndKind key{message.pair, message.call->kind};
    const auto known = before.find(key);
    const bool same = known != before.end() && known->second.number == message.number;
    waiting_[key] = {.number = message.number, .since = same ? known->second.since : now};
  }
}

std::string MessageWatcher::Describe(MonotonicNs now,
                                     const std::vector<OpenMessage>& unanswered) const {
  std::string text;
  size_t named = 0;
  for (const OpenMessage& message : unanswered) {
    const MonotonicNs since = waiting_.at({message.pair, message.call->kind}).since;
    if (now - since < options_.patience_ns || ++named > kMaxNamedCalls) continue;
    const Rank other = message.other();
    absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", message.caller().value(),
                    " waits for rank ", other.value(), " on ", options_.host_of(other),
                    ", which has ", Lack(message.call->kind), mccs::Describe(message));
  }
  if (named > kMaxNamedCalls) {
    absl::StrAppend(&text, "; and ", named - kMaxNamedCalls, " more point-to-point calls wait");
  }
  return text;
}

void MessageWatcher::Say(MonotonicNs now) {
  if (held_up_.empty() || !in_log_.IsDue(held_up_, now)) return;
  options_.log->Warning("communicator ", options_.name, ": ", held_up_);
}

}  // namespace mccs
