// Limits what the controller stores of the messages of one host, so that a daemon that lies takes
// neither its memory nor the places of other hosts: the number of communicators that the host
// leads, the bytes of a report, and the bytes of its announcements and reports together.
//
// Bytes are those of the message in memory (SpaceUsedLong): an empty lane has 2 bytes on the wire,
// and 136 here.
//
// OWNER: the Registry. THREAD: the owner's only.
#ifndef MCCS_CONTROLLER_STATE_HOST_STORAGE_H_
#define MCCS_CONTROLLER_STATE_HOST_STORAGE_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"

namespace mccs {

class HostStorage {
 public:
  // Communicators that one host leads: with 16 ranks on it, 256 for each. A further one runs, but
  // the controller does not know it.
  static constexpr size_t kMaxLed = 4096;
  // A report of 8 lanes takes 2 KiB, so this one has more lanes than a daemon has descriptors.
  static constexpr size_t kMaxReportBytes = 16u << 20;
  // Of one host. What a registration may announce takes about this much (kMaxMessageBytes).
  static constexpr size_t kMaxHostBytes = 256u << 20;

  // `host` leads `id`, with an announcement of `bytes`; replaces that of before.
  // kResourceExhausted: a limit; nothing changes. REQUIRES: no other host leads it.
  absl::Status SetAnnounce(const std::string& host, CommId id, size_t bytes);
  // The host leads `id` no more, or has not announced it again yet.
  void RemoveAnnounce(CommId id);
  // The report of `host` about `id` has `bytes`; replaces that of before. Errors as above.
  absl::Status SetReport(const std::string& host, CommId id, size_t bytes);
  void RemoveReport(const std::string& host, CommId id);
  // Of all hosts.
  void RemoveReports(CommId id);
  // The announcement and the reports.
  void Remove(CommId id);

  size_t led(const std::string& host) const { return HeldBy(host).led; }
  size_t bytes(const std::string& host) const { return HeldBy(host).bytes; }

 private:
  struct Held {
    size_t led = 0;
    size_t bytes = 0;
  };
  struct Stored {
    std::string leader;  // empty: not announced
    size_t announce_bytes = 0;
    std::map<std::string, size_t> report_bytes = {};  // by host
  };

  Held HeldBy(const std::string& host) const;
  // Whether `host` may have `bytes` in the place of `before`.
  absl::Status CheckBytes(const std::string& host, size_t before, size_t bytes) const;
  void Release(const std::string& host, size_t led, size_t bytes);

  std::map<std::string, Held> held_;  // by host; without those that hold nothing
  std::map<CommId, Stored> stored_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_HOST_STORAGE_H_
