#include "service/messages/message_watcher.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mccs {
namespace {

constexpr int kChecksPerPeriod = 4;
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
    if (check_at_ == 0) return false;  // as in most turns
    check_at_ = 0;
    check_.reset();
    waits_ = {};
    if (stalled_on_.text.empty()) return false;
    options_.log->Info("communicator ", options_.name, ": point-to-point calls progress again");
    stalled_on_ = {};
    return true;
  }
  if (!check_.has_value()) {
    if (now < check_at_) return false;
    check_at_ = now + period_ns() / kChecksPerPeriod;
    check_.emplace(now);
  }
  if (!LookAtParts(messages)) return false;
  Report stalled_on = CompleteCheck();
  const bool changed = stalled_on.text != stalled_on_.text ||
                       stalled_on.ranks != stalled_on_.ranks ||
                       stalled_on.hosts != stalled_on_.hosts;
  stalled_on_ = std::move(stalled_on);
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
    for (const ArrivingMessage& arriving : waiting.arriving()) Note(arriving);
    for (const BusyLane& lane : waiting.lanes()) Note(lane);
    const size_t found = waiting.calls().size() + waiting.puts().size() +
                         waiting.arriving().size() + waiting.lanes().size();
    cost_ += static_cast<int64_t>(waiting.looks()) * kCostPerLook +
             static_cast<int64_t>(found) * kCostPerCall;
  }
  return true;
}

template <typename Key>
int64_t MessageWatcher::CountWait(const Key& key, Waiting waiting, Waits<Key> AllWaits::*waits) {
  const auto known = (waits_.*waits).find(key);
  const bool same = known != (waits_.*waits).end() && known->second.number == waiting.number &&
                    known->second.moved == waiting.moved;
  waiting.since = same ? known->second.since : check_->began;
  (check_->waits.*waits)[key] = waiting;
  const int64_t waited_ns = check_->began - waiting.since;
  if (waited_ns < period_ns()) return 0;
  ++check_->stalls;
  check_->longest_ns = std::max(check_->longest_ns, waited_ns);
  return waited_ns;
}

template <typename Awaited>
void MessageWatcher::AddAwaited(const Awaited& awaited, std::set<Awaited>* first) {
  first->insert(awaited);
  if (first->size() > Stalls::kMost) first->erase(std::prev(first->end()));
}

std::string MessageWatcher::OnHost(Rank rank) const {
  return absl::StrCat(" on ", options_.name_of(options_.host_of(rank)));
}

void MessageWatcher::Note(const OpenMessage& call) {
  const int64_t waited_ns =
      CountWait({call.pair, call.call->kind}, {.number = call.number}, &AllWaits::calls);
  if (waited_ns == 0) return;
  const Rank other = call.other();
  if (waited_ns >= kStalledAfterNs) AddAwaited(other, &check_->ranks);
  auto& named = check_->stalled_calls;
  const std::tuple place{call.pair.source, call.pair.destination, call.call->kind};
  if (named.size() == kMaxNamedCalls) {
    if (place > named.rbegin()->first) return;
    named.erase(std::prev(named.end()));
  }
  named[place] =
      absl::StrCat("rank ", call.caller().value(), " waits for rank ", other.value(), OnHost(other),
                   ", which has ", MissingAction(call.call->kind), Describe(call));
}

void MessageWatcher::Note(const UncopiedPut& put) {
  const int64_t waited_ns = CountWait(put.pair, {.number = put.part}, &AllWaits::puts);
  if (waited_ns == 0) return;
  const Rank rank = put.pair.destination;
  if (waited_ns >= kStalledAfterNs) AddAwaited(rank, &check_->ranks);
  if (check_->others.size() == kMaxNamedCalls) return;
  check_->others.push_back(absl::StrCat(
      "process ", put.process, " of rank ", rank.value(), OnHost(rank),
      " has not copied a put of rank ", put.pair.source.value(), " into window #", put.window,
      ": a call of CUDA, such as cudaFree, may hold up its thread for copies"));
}

void MessageWatcher::Note(const ArrivingMessage& arriving) {
  const OpenMessage& message = arriving.message;
  const int64_t waited_ns =
      CountWait(message.pair, {.number = message.number, .moved = arriving.landed + arriving.moved},
                &AllWaits::arriving);
  if (waited_ns == 0) return;
  const Rank source = message.pair.source;
  if (waited_ns >= kStalledAfterNs)
    AddAwaited({options_.host_of(source), StallCause::kData}, &check_->hosts);
  if (check_->others.size() == kMaxNamedCalls) return;
  check_->others.push_back(absl::StrCat("rank ", message.caller().value(), " has received only ",
                                        arriving.landed, " of ", message.bytes(),
                                        " bytes from rank ", source.value(), OnHost(source), ": ",
                                        Describe(message)));
}

void MessageWatcher::Note(const BusyLane& lane) {
  const int64_t waited_ns = CountWait(
      {lane.host, lane.lane}, {.number = lane.acknowledged, .moved = lane.moved}, &AllWaits::lanes);
  if (waited_ns == 0) return;
  if (waited_ns >= kStalledAfterNs) AddAwaited({lane.host, lane.cause}, &check_->hosts);
  if (check_->others.size() == kMaxNamedCalls) return;
  const AwaitedHost host{.host = options_.name_of(lane.host), .cause = lane.cause};
  check_->others.push_back(absl::StrCat("message lane ", lane.lane, " to ", host.host,
                                        " makes no progress: ", Describe(host)));
}

MessageWatcher::Report MessageWatcher::CompleteCheck() {
  std::vector<std::string> named;
  for (auto& [place, text] : check_->stalled_calls) named.push_back(std::move(text));
  for (std::string& text : check_->others) named.push_back(std::move(text));
  named.resize(std::min(named.size(), kMaxNamedCalls));
  Report report;
  report.text = absl::StrJoin(named, "; ");
  report.longest_ns = check_->longest_ns;
  if (check_->stalls > named.size()) {
    absl::StrAppend(&report.text, "; and ", check_->found() < kMostFound ? "" : "at least ",
                    check_->stalls - named.size(), " more point-to-point calls wait");
  }
  for (const Rank rank : check_->ranks)
    report.ranks.push_back({rank.value(), options_.name_of(options_.host_of(rank))});
  for (const auto& [host, cause] : check_->hosts)
    report.hosts.push_back({options_.name_of(host), cause});
  waits_ = std::move(check_->waits);
  check_.reset();
  return report;
}

void MessageWatcher::LogStall(MonotonicNs now) {
  const std::string& text = stalled_on_.text;
  if (text.empty() || stalled_on_.longest_ns < options_.warn_after_ns) return;
  if (in_log_.IsDue(text, now)) options_.log->Warning("communicator ", options_.name, ": ", text);
}

}  // namespace mccs
