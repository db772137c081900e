// The operators' objects: checks each change as a whole, stores it and writes it to the audit log.
//
// OWNER: main. THREAD: any. A change is planned on a snapshot, without a lock. Then it blocks for
// the change before it and for the store's disk, and is planned again if that one has replaced the
// snapshot. Audit writes and reads block for the disk only. Dry runs and objects() do not block.
#ifndef MCCS_CONTROLLER_STATE_CATALOG_H_
#define MCCS_CONTROLLER_STATE_CATALOG_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"
#include "controller/state/audit_actions.h"
#include "controller/state/controller_events.h"
#include "controller/state/operator_roles.h"
#include "controller/state/rejection_limits.h"
#include "controller/store/store.h"

namespace mccs {

// The client that requests a change.
struct Caller {
  std::string peer;  // as the transport reports it
  std::string user;  // what its certificate or token proves; without TLS as the client reports it
  OperatorRole role = {};
  bool user_proven = false;
};

class Catalog {
 public:
  using Objects = std::shared_ptr<const ObjectSet>;

  // Loads the objects from the store. kDataLoss: an object cannot be read, or the objects are
  // inconsistent. LIFETIME: all three outlive it.
  static absl::StatusOr<std::unique_ptr<Catalog>> Open(Store* store, const WallClock* clock,
                                                       Log* log);

  // Calls `watcher` now with the current objects, and for every change, in order, before the call
  // that made the change returns. It must not call the catalog, except objects().
  void Watch(std::function<void(Objects)> watcher);

  // Called for every consistent change before it is stored, also for dry runs and in several
  // threads; an error rejects the change. It must not wait for another change.
  using Admission = std::function<absl::Status(const ObjectSet& before, const ObjectSet& after)>;
  void SetAdmission(Admission admission);

  // The objects after the last stored change; does not wait for a change in progress.
  Objects objects() const;

  struct Outcome {
    Objects before;
    PlannedChange plan;
  };
  // Errors as in CheckMayChangeSome (before `files` are read), ReadObjects, PlanApply and
  // CheckMayChange; kInternal: the store could not commit, and nothing has changed. A dry run
  // changes nothing and writes no audit entry. `action`: from audit_actions.h.
  absl::StatusOr<Outcome> Apply(const std::vector<ObjectFile>& files, const Caller& caller,
                                bool dry_run, const char* action = kAuditApply);
  // Deletes the objects in `keys` and those in `files`.
  absl::StatusOr<Outcome> Delete(const std::vector<ObjectKey>& keys,
                                 const std::vector<ObjectFile>& files, const Caller& caller,
                                 bool dry_run, const char* action = kAuditDelete);

  // Write audit entries: for a request of `caller` that was rejected before it became a change, as
  // far as its number is within RejectionLimits, and
  // for decisions of the controller itself. If the store fails, the entry goes to the log instead.
  void AuditRejection(const char* action, const Caller& caller, const absl::Status& why);
  void AuditEvents(const std::vector<ControllerEvent>& decisions);

  // The newest `limit` entries, the newest first.
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) { return store_->Audit(limit); }

 private:
  using Plan = std::function<absl::StatusOr<PlannedChange>(const ObjectSet&)>;

  Catalog(Store* store, const WallClock* clock, Log* log, Objects objects)
      : store_(store), clock_(clock), log_(log), objects_(std::move(objects)) {}

  // As CheckMayChangeSome; the audit log has the rejection.
  absl::Status CheckRole(const char* action, const Caller& caller, bool dry_run);
  absl::StatusOr<Outcome> Change(const char* action, const Caller& caller, bool dry_run,
                                 const Plan& plan);
  // Stores `plan` and makes it the current objects, which it returns. REQUIRES: changes_mutex_ is
  // held.
  absl::StatusOr<Objects> Commit(const PlannedChange& plan, const char* action,
                                 const Caller& caller);
  // REQUIRES: mutex_ is held.
  absl::Status CommitChange(const PlannedChange& plan, AuditEntry entry);
  void CommitRejection(AuditEntry entry, const absl::Status& why);
  void CommitAudit(std::vector<AuditEntry> entries);
  AuditEntry EntryOf(const char* action, const Caller& caller) const;

  Store* const store_;
  const WallClock* const clock_;
  Log* const log_;
  // Locked in this order. The first one is held while a change is planned again, the second one
  // only for the store.
  std::mutex changes_mutex_;  // guards watcher_, serializes changes
  std::function<void(Objects)> watcher_;
  std::mutex mutex_;  // guards rejections_, serializes commits
  RejectionLimits rejections_;
  mutable std::mutex objects_mutex_;  // guards admission_; held only to copy
  Admission admission_;
  // Written under all three mutexes; any of them suffices for reading.
  Objects objects_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_CATALOG_H_
