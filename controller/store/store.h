// What the controller has to know again after a restart: objects, strategies of communicators, and
// an audit log.
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
#include "base/ids.h"
#include "base/wall_clock.h"

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

// Who did what, when, and what came of it.
struct AuditEntry {
  uint64_t number = 0;  // given by the store, from 1 on
  UnixNs time = 0;
  std::string peer;       // as the transport says: "ipv4:10.0.0.7:51312"
  std::string user;       // as the caller says; nobody has checked it
  std::string action;     // "apply", "delete"
  std::string objects;    // "created Tenant 'a'; changed Policy 'b'"
  std::string outcome;    // "done", "nothing to do", "refused: …"
  uint64_t revision = 0;  // of the objects afterwards

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct StoredState {
  uint64_t revision = 0;
  std::vector<StoredObject> objects;       // by kind and name
  std::vector<StoredStrategy> strategies;  // in no order
};

struct StoreChange {
  std::optional<uint64_t> revision;  // afterwards: as it is, or one higher; absent: as it is
  std::vector<StoredObject> put_objects;
  // Kind and name, and ids; what is not there does no harm.
  std::vector<std::pair<std::string, std::string>> erase_objects;
  std::vector<StoredStrategy> put_strategies;
  std::vector<CommId> erase_strategies;
  std::vector<AuditEntry> audit;  // without numbers
};

class Store {
 public:
  // Of the audit log; the oldest go first.
  static constexpr uint64_t kMaxAuditEntries = 100'000;

  virtual ~Store() = default;

  // All that was committed.
  virtual absl::StatusOr<StoredState> Load() = 0;
  // All of `change` or nothing of it, also if the process or the machine dies in the middle; when
  // it returns OK it is kept. kFailedPrecondition: change.revision is neither the stored one nor
  // the next. kInternal: it could not be kept; the text says why.
  virtual absl::Status Commit(const StoreChange& change) = 0;
  // The newest `limit` entries, the newest first.
  virtual absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_STORE_H_
