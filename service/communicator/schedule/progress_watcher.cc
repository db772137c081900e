#include "service/communicator/schedule/progress_watcher.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr size_t kMaxNamedHosts = 8;

}  // namespace

bool ProgressWatcher::Poll(MonotonicNs now, const OperationLoop& loop, bool ranks_missing) {
  const bool runs = loop.running() || loop.state() == LoopState::kWaitingNics;
  if (!runs || ranks_missing) {
    since_ = 0;
    check_at_ = kNever;
    return Clear();
  }
  if (since_ == 0 || loop.progress() != progress_) {
    progress_ = loop.progress();
    since_ = now;
    if (check_at_ == kNever) check_at_ = now + kAfterNs;
    return Clear();
  }
  if (now < check_at_) return false;
  if (now - since_ < kAfterNs) {  // It has moved since check_at_ was set.
    check_at_ = since_ + kAfterNs;
    return false;
  }
  if (!check_.has_value()) check_.emplace();
  if (!LookAtLanes(loop)) return false;
  check_at_ = now + kCheckEveryNs;
  return CompleteCheck(now, loop);
}

bool ProgressWatcher::Clear() {
  check_.reset();
  moved_bytes_.reset();
  return ClearReport();
}

bool ProgressWatcher::ClearReport() {
  if (report_.text.empty()) return false;
  options_.log->Info("communicator ", options_.name, ": the stalled operation progresses again");
  report_ = {};
  return true;
}

bool ProgressWatcher::LookAtLanes(const OperationLoop& loop) {
  std::vector<StalledPeer> found;
  const size_t first = check_->next;
  const bool more = loop.FindAwaited(&check_->next, kLanesPerTurn, &found, &check_->moved_bytes);
  cost_ += static_cast<int64_t>(check_->next - first) * kCostPerLook +
           static_cast<int64_t>(found.size()) * kCostPerWait;
  check_->found.insert(found.begin(), found.end());
  return !more;
}

bool ProgressWatcher::CompleteCheck(MonotonicNs now, const OperationLoop& loop) {
  const Membership& members = *options_.members;
  std::set<StalledPeer> found = std::move(check_->found);
  const std::optional<uint64_t> before = std::exchange(moved_bytes_, check_->moved_bytes);
  check_.reset();
  if (before != moved_bytes_) return ClearReport();
  if (found.empty()) {
    found.insert({members.self, loop.running() ? StallCause::kDevice : StallCause::kRegistration});
  }
  const std::string call = loop.LocalStatus().call;
  Report report;
  report.text = absl::StrCat("operation #", loop.completed() + 1, call.empty() ? "" : " (", call,
                             call.empty() ? "" : ")", " makes no progress: ");
  for (const StalledPeer& peer : found) {
    const size_t named = report.hosts.size();
    if (named == Stalls::kMost) break;
    report.hosts.push_back({.host = members.HostName(peer.host), .cause = peer.cause});
    if (named >= kMaxNamedHosts) continue;
    absl::StrAppend(&report.text, named == 0 ? "" : "; ", Describe(report.hosts.back()));
  }
  if (found.size() > kMaxNamedHosts)
    absl::StrAppend(&report.text, "; and ", found.size() - kMaxNamedHosts, " more");
  const bool changed = report.text != report_.text || report.hosts != report_.hosts;
  report_ = std::move(report);
  if (in_log_.IsDue(report_.text, now))
    options_.log->Warning("communicator ", options_.name, ": ", report_.text);
  return changed;
}

}  // namespace mccs
