#include "controller/coordinator/pending_dumps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"

namespace mccs {
namespace {

constexpr size_t kMaxNames = 20;

absl::Status Unknown(const Registry& registry, const std::string& host) {
  std::vector<std::string> names;
  for (const auto& [name, record] : registry.hosts()) {
    if (names.size() < kMaxNames) names.push_back(name);
  }
  if (names.empty()) {
    return absl::NotFoundError(
        absl::StrCat("unknown host '", host, "': none has registered with this controller"));
  }
  return absl::NotFoundError(absl::StrCat("unknown host '", host,
                                          "'; registered hosts: ", absl::StrJoin(names, ", "),
                                          registry.hosts().size() > names.size() ? ", …" : ""));
}

absl::Status Stopping() { return absl::FailedPreconditionError("the controller is stopping"); }

}  // namespace

absl::StatusOr<uint64_t> PendingDumps::Add(const Registry& registry, const std::string& host,
                                           MonotonicNs now, StateCallback callback) {
  if (stopped_) return Stopping();
  const auto known = registry.hosts().find(host);
  if (known == registry.hosts().end()) return Unknown(registry, host);
  const HostRecord& record = known->second;
  if (record.state != HostState::kReady) {
    return absl::FailedPreconditionError(
        absl::StrCat("host ", host, record.state == HostState::kLost ? " is lost" : " was rejected",
                     " since ", FormatAge(now - record.since), ": ", record.why,
                     "; ask again after its daemon has registered"));
  }
  const auto asked = std::count_if(open_.begin(), open_.end(),
                                   [&](const auto& entry) { return entry.second.host == host; });
  if (static_cast<size_t>(asked) >= kMaxOpenPerHost) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host ", host, " already has ", asked, " open requests; try again later"));
  }
  open_[next_] = {host, now + kTimeoutNs, std::move(callback)};
  return next_++;
}

void PendingDumps::Handle(const std::string& host, uint64_t request_id,
                          const state::Daemon& state) {
  const auto known = open_.find(request_id);
  if (known == open_.end() || known->second.host != host) return;
  answers_.push_back({std::move(known->second.callback), state});
  open_.erase(known);
}

void PendingDumps::OnHostLost(const std::string& host, const std::string& why) {
  std::erase_if(open_, [&](auto& entry) {
    if (entry.second.host != host) return false;
    answers_.push_back({std::move(entry.second.callback),
                        absl::FailedPreconditionError(
                            absl::StrCat("host ", host, " was lost before it answered: ", why))});
    return true;
  });
}

void PendingDumps::Expire(MonotonicNs now) {
  std::erase_if(open_, [&](auto& entry) {
    if (entry.second.until > now) return false;
    answers_.push_back(
        {std::move(entry.second.callback),
         absl::AbortedError(absl::StrCat("host ", entry.second.host,
                                         " is connected, but its daemon has not answered within ",
                                         kTimeoutNs / kNsPerSec,
                                         " s: its engine is stuck or very busy, or its release "
                                         "does not support this request"))});
    return true;
  });
}

void PendingDumps::Stop() {
  stopped_ = true;
  for (auto& [request_id, open] : std::exchange(open_, {}))
    answers_.push_back({std::move(open.callback), Stopping()});
}

}  // namespace mccs
