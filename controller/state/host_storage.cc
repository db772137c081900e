#include "controller/state/host_storage.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::Status HostStorage::SetAnnounce(const std::string& host, CommId id, size_t bytes) {
  const auto known = stored_.find(id);
  const bool led = known != stored_.end() && !known->second.leader.empty();
  if (!led && HeldBy(host).led >= kMaxLed) {
    return absl::ResourceExhaustedError(
        absl::StrCat("communicator ", FormatCommId(id), ": its leader, host ", host, ", leads ",
                     kMaxLed, " others already, which is the limit; destroy unused communicators"));
  }
  const size_t before = led ? known->second.announce_bytes : 0;
  MCCS_RETURN_IF_ERROR(CheckBytes(host, before, bytes));
  Held& held = held_[host];
  held.led += led ? 0 : 1;
  held.bytes += bytes - before;
  Stored& stored = stored_[id];
  stored.leader = host;
  stored.announce_bytes = bytes;
  return absl::OkStatus();
}

void HostStorage::RemoveAnnounce(CommId id) {
  const auto known = stored_.find(id);
  if (known == stored_.end() || known->second.leader.empty()) return;
  Stored& stored = known->second;
  Release(stored.leader, /*led=*/1, stored.announce_bytes);
  stored.leader.clear();
  stored.announce_bytes = 0;
}

absl::Status HostStorage::SetReport(const std::string& host, CommId id, size_t bytes) {
  if (bytes > kMaxReportBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host ", host, ": its report on communicator ", FormatCommId(id), " takes ",
                     bytes, " bytes of the controller's memory: the limit is ", kMaxReportBytes));
  }
  std::map<std::string, size_t>& reports = stored_[id].report_bytes;
  const auto known = reports.find(host);
  const size_t before = known != reports.end() ? known->second : 0;
  MCCS_RETURN_IF_ERROR(CheckBytes(host, before, bytes));
  held_[host].bytes += bytes - before;
  reports[host] = bytes;
  return absl::OkStatus();
}

void HostStorage::RemoveReport(const std::string& host, CommId id) {
  const auto known = stored_.find(id);
  if (known == stored_.end()) return;
  const auto report = known->second.report_bytes.find(host);
  if (report == known->second.report_bytes.end()) return;
  Release(host, /*led=*/0, report->second);
  known->second.report_bytes.erase(report);
}

void HostStorage::RemoveReports(CommId id) {
  const auto known = stored_.find(id);
  if (known == stored_.end()) return;
  for (const auto& [host, bytes] : known->second.report_bytes) Release(host, /*led=*/0, bytes);
  known->second.report_bytes.clear();
}

void HostStorage::Remove(CommId id) {
  RemoveAnnounce(id);
  RemoveReports(id);
  stored_.erase(id);
}

HostStorage::Held HostStorage::HeldBy(const std::string& host) const {
  const auto known = held_.find(host);
  return known != held_.end() ? known->second : Held{};
}

absl::Status HostStorage::CheckBytes(const std::string& host, size_t before, size_t bytes) const {
  const size_t all = HeldBy(host).bytes - before + bytes;
  // A message that is not larger than the one before is always stored.
  if (all <= kMaxHostBytes || bytes <= before) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("host ", host, ": its communicators and reports would take ", all,
                   " bytes of the controller's memory: the limit is ", kMaxHostBytes,
                   "; destroy unused communicators"));
}

void HostStorage::Release(const std::string& host, size_t led, size_t bytes) {
  const auto known = held_.find(host);
  known->second.led -= led;
  known->second.bytes -= bytes;
  if (known->second.led == 0 && known->second.bytes == 0) held_.erase(known);
}

}  // namespace mccs
