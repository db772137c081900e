// The controller's persistent state: objects, strategies of communicators, and an audit log.
//
// OWNER: main. THREAD: any. Commit blocks for a disk.
#ifndef MCCS_CONTROLLER_STORE_STORE_H_
#define MCCS_CONTROLLER_STORE_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"

namespace mccs {

struct StoredObject {
  std::string kind;
  std::string name;
  uint64_t version = 0;
  std::string document;  // as controller/objects/ writes it

  friend bool operator==(const StoredObject&, const StoredObject&) = default;
};

struct StoredStrategy {
  CommId id;
  std::string record;  // stored::CommunicatorStrategy (proto/stored.proto), serialized

  friend bool operator==(const StoredStrategy&, const StoredStrategy&) = default;
};

// One action: its author, time and result.
struct AuditEntry {
  uint64_t number = 0;  // assigned by the store, from 1
  UnixNs time = 0;
  std::string peer;       // from the transport: "ipv4:10.0.0.7:51312"
  std::string user;       // an operator; empty: the controller itself
  std::string action;     // from controller/state/audit_actions.h
  std::string objects;    // "created Tenant 'a'; changed Policy 'b'"
  std::string outcome;    // "done", "nothing to do", "rejected: …", "timed out: …", …
  uint64_t revision = 0;  // of the objects after it
  // A certificate or token proves the user; else the client has reported it. False for entries of
  // earlier releases.
  bool user_proven = false;

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct StoredState {
  uint64_t revision = 0;
  std::vector<StoredObject> objects;       // in no particular order
  std::vector<StoredStrategy> strategies;  // in no order
};

struct StoreChange {
  std::optional<uint64_t>
      revision;  // new revision: the stored one or one higher; absent: unchanged
  std::vector<StoredObject> put_objects;
  // Kind and name, and ids; unknown ones are ignored.
  std::vector<std::pair<std::string, std::string>> erase_objects;
  std::vector<StoredStrategy> put_strategies;
  std::vector<CommId> erase_strategies;
  std::vector<AuditEntry> audit;  // without numbers
};

class Store {
 public:
  // Limit of the audit log; the oldest entries are dropped.
  static constexpr uint64_t kMaxAuditEntries = 100'000;

  virtual ~Store() = default;

  // Everything that was committed.
  virtual absl::StatusOr<StoredState> Load() = 0;
  // Atomic and durable: stores all of `change` or nothing, even if the process or the machine
  // crashes. kFailedPrecondition: change.revision is neither the stored one nor the next.
  // kInternal: could not store it; the message has the reason. Until another commit has succeeded,
  // the next process that opens the store may find a change whose sync failed.
  virtual absl::Status Commit(const StoreChange& change) = 0;
  // The newest `limit` entries, the newest first.
  virtual absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_STORE_H_
