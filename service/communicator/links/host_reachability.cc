#include "service/communicator/links/host_reachability.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {

void HostReachability::Suspect(const Endpoint& at) {
  if (!means_.controller->connected()) return;
  const bool is_checked = std::ranges::any_of(
      hosts_, [&](const auto& entry) { return entry.second.checked && entry.second.at == at; });
  if (is_checked) return;
  if (suspected_.size() < kMaxSuspected && suspected_.insert(ToString(at)).second) changed_ = true;
}

absl::Status HostReachability::Check(const Endpoint& at, const std::string& wanted) const {
  for (const auto& [name, host] : hosts_) {
    if (host.at != at || (!wanted.empty() && name != wanted)) continue;
    const bool own = !host.failure.empty() && host.unlisted_since == 0;
    const bool listed = !host.listed.empty() && means_.controller->connected();
    if (!own && !listed) continue;
    const MonotonicNs since = listed ? host.listed_since : host.failing_since;
    return absl::DeadlineExceededError(absl::StrCat(
        listed ? host.listed
               : absl::StrCat("this host cannot connect to host ", name, ": ", host.failure),
        "; unreachable for ", FormatAge(means_.clock->Now() - since),
        "; repair the network between the two hosts or its firewall, 'mccsctl get hosts' shows "
        "when it works"));
  }
  return absl::OkStatus();
}

bool HostReachability::Poll() {
  bool moved = false;
  if (auto list = means_.controller->TakePeerHosts(); list.has_value()) {
    TakeList(*list);
    moved = true;
  }
  if (hosts_.empty() && !changed_) return moved;  // In most turns.
  const MonotonicNs now = means_.clock->Now();
  for (auto it = hosts_.begin(); it != hosts_.end();) {
    auto& [name, host] = *it;
    moved |= PollCheck(name, host);
    const bool gone = host.unlisted_since != 0 && now - host.unlisted_since >= kForgetAfterNs;
    if (gone && host.check == nullptr) {
      changed_ |= !host.failure.empty();
      host.checked = false;
      host.failure.clear();
    }
    it = !host.checked && host.listed.empty() ? hosts_.erase(it) : std::next(it);
  }
  if (now >= NextReport()) {
    Report();
    moved = true;
  }
  return moved;
}

void HostReachability::TakeList(const PeerHosts& list) {
  const MonotonicNs now = means_.clock->Now();
  const bool answers = list.revision == revision_ && revision_ != 0;
  if (answers) suspected_.clear();
  for (auto& [name, host] : hosts_) {
    host.listed.clear();
    if (answers && host.unlisted_since == 0) host.unlisted_since = now;
  }
  for (const PeerHost& peer : list.hosts) {
    if (!hosts_.contains(peer.host) && hosts_.size() == kMaxHosts) continue;
    Host& host = hosts_[peer.host];
    if (host.at != peer.at) {
      if (host.check != nullptr) --checks_;
      host.check.reset();
      host.check_at = now;
    }
    host.at = peer.at;
    host.unlisted_since = 0;
    host.listed = peer.unreachable;
    host.listed_since = now - peer.unreachable_for_ns;
    if (peer.check && !std::exchange(host.checked, true)) host.check_at = now;
  }
}

bool HostReachability::PollCheck(const std::string& name, Host& host) {
  const MonotonicNs now = means_.clock->Now();
  if (host.check == nullptr) {
    if (!host.checked || now < host.check_at || checks_ == kMaxChecksAtOnce) return false;
    ConnectOptions options;
    options.dscp = means_.dscp;
    auto check = means_.network->Connect(host.at, options);
    if (absl::IsResourceExhausted(check.status())) {  // Of this host, not of the other.
      host.check_at = now + kCheckEveryNs;
      return false;
    }
    if (!check.ok()) {
      OnCheckFailed(name, host, std::string(check.status().message()));
      return true;
    }
    host.check = *std::move(check);
    host.check_deadline = now + kCheckTimeoutNs;
    ++checks_;
    return true;
  }
  const bool open = host.check->readable() || host.check->writable();
  if (!open && now < host.check_deadline) return false;
  std::byte byte{};
  const iovec piece{&byte, 1};
  const absl::Status status =
      open ? host.check->Read({&piece, 1}).status() : absl::DeadlineExceededError("no answer");
  host.check.reset();
  --checks_;
  if (!status.ok()) {
    OnCheckFailed(name, host, std::string(status.message()));
    return true;
  }
  if (!host.failure.empty()) {
    means_.log->Info("host ", name, " at ", ToString(host.at), " is reachable again");
    changed_ = true;
  }
  host.failure.clear();
  host.checked = false;
  return true;
}

void HostReachability::OnCheckFailed(const std::string& name, Host& host, const std::string& why) {
  const MonotonicNs now = means_.clock->Now();
  host.check_at = now + kCheckEveryNs;
  const std::string cause = absl::StrCat("connection to ", ToString(host.at), ": ", why);
  if (std::exchange(host.failure, cause) != "") return;
  host.failing_since = now;
  changed_ = true;
  means_.log->Warning("host ", name, " is unreachable: ", cause,
                      "; communicators avoid or reject connections between the two hosts");
}

MonotonicNs HostReachability::NextReport() const {
  if (changed_) return reported_at_ == 0 ? 0 : reported_at_ + kMinReportIntervalNs;
  const bool standing =
      std::ranges::any_of(hosts_, [](const auto& entry) { return !entry.second.failure.empty(); });
  return standing ? reported_at_ + kReportEveryNs : kNever;
}

void HostReachability::Report() {
  changed_ = false;
  reported_at_ = means_.clock->Now();
  agent::v1::UnreachableHosts report;
  report.set_revision(++revision_);
  for (const std::string& at : suspected_) report.add_suspected(at);
  for (const auto& [name, host] : hosts_) {
    if (host.failure.empty()) continue;
    agent::v1::UnreachableHost* peer = report.add_unreachable();
    peer->set_host(name);
    peer->set_cause(host.failure);
  }
  means_.controller->SetUnreachableHosts(report);
}

MonotonicNs HostReachability::NextDeadline() const {
  MonotonicNs next = NextReport();
  for (const auto& [name, host] : hosts_) {
    if (host.check != nullptr) {
      next = std::min(next, host.check_deadline);
    } else if (host.checked && checks_ < kMaxChecksAtOnce) {
      next = std::min(next, host.check_at);
    }
  }
  return next;
}

}  // namespace mccs
