#include "service/messages/message_watcher.h"

#include <algorithm>
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
      return "not registered the window of ";
    case OpKind::kWaitSignal:
      return "given too few signals for ";
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
    options_.log->Info("communicator ", options_.name, ": sends and receives get on again");
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

// What waited at the last look, and still does, has waited since then.
void MessageWatcher::Look(MonotonicNs now, const std::vector<OpenMessage>& unanswered) {
  const std::vector<Waiting> before = std::exchange(waiting_, {});
  for (const OpenMessage& message : unanswered) {
    const auto known = std::find_if(before.begin(), before.end(), [&](const Waiting& other) {
      return other.pair == message.pair && other.kind == message.call->kind &&
             other.number == message.number;
    });
    waiting_.push_back({.pair = message.pair,
                        .kind = message.call->kind,
                        .number = message.number,
                        .since = known == before.end() ? now : known->since});
  }
}

std::string MessageWatcher::Describe(MonotonicNs now,
                                     const std::vector<OpenMessage>& unanswered) const {
  std::string text;
  size_t named = 0;
  for (size_t i = 0; i < unanswered.size(); ++i) {
    if (now - waiting_[i].since < options_.patience_ns || ++named > kMaxNamedCalls) continue;
    const Rank other = unanswered[i].other();
    absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", unanswered[i].caller().value(),
                    " waits for rank ", other.value(), " on ", options_.host_of(other),
                    ", which has ", Lack(unanswered[i].call->kind), mccs::Describe(unanswered[i]));
  }
  if (named > kMaxNamedCalls) {
    absl::StrAppend(&text, "; and ", named - kMaxNamedCalls, " more sends and receives wait");
  }
  return text;
}

void MessageWatcher::Say(MonotonicNs now) {
  if (held_up_.empty() || !in_log_.IsDue(held_up_, now)) return;
  options_.log->Warning("communicator ", options_.name, ": ", held_up_);
}

}  // namespace mccs
