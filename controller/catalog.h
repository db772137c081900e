// The operators' objects: what is in force, each change checked as a whole, kept in the store, and
// written into the audit log.
//
// OWNER: main. THREAD: any. A change waits for the one before it, for who is asked about it, and for
// the store's disk, and so does what goes into the audit log; who reads it waits for the disk
// alone, and who asks for the objects for nothing.
#ifndef MCCS_CONTROLLER_CATALOG_H_
#define MCCS_CONTROLLER_CATALOG_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/wall_clock.h"
#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"
#include "controller/own_decisions.h"
#include "controller/store/store.h"

namespace mccs {

// Who asks.
struct Caller {
  std::string peer;  // as the transport says
  std::string user;  // as the caller says; nobody has checked it
};

class Catalog {
 public:
  using Objects = std::shared_ptr<const ObjectSet>;

  // With what the store holds. kDataLoss: an object in it cannot be read, or they do not hold
  // together. LIFETIME: all three outlive it.
  static absl::StatusOr<std::unique_ptr<Catalog>> Open(Store* store, const WallClock* clock,
                                                       Log* log);

  // Told of every change before the call that made it returns, in their order; at once of what is
  // there now. It must not call the catalog, but for objects().
  void Watch(std::function<void(Objects)> watcher);

  // Asked about every change that holds together, before it is kept: an error refuses it. It must
  // not call the catalog, but for objects().
  using Admission = std::function<absl::Status(const ObjectSet& before, const ObjectSet& after)>;
  void SetAdmission(Admission admission);

  // Those of the last change that was kept, also while another one is under way.
  Objects objects() const;

  struct Outcome {
    Objects before;
    PlannedChange plan;
  };
  // Errors as ReadObjects and PlanApply have them; kInternal: the store could not keep it. Then
  // nothing has changed. A dry run changes nothing and leaves no trace.
  // `action`: what the audit log calls it.
  absl::StatusOr<Outcome> Apply(const std::vector<ObjectFile>& files, const Caller& caller,
                                bool dry_run, const char* action = "apply");
  // Objects by key, and those that `files` hold.
  absl::StatusOr<Outcome> Delete(std::vector<ObjectKey> keys, const std::vector<ObjectFile>& files,
                                 const Caller& caller, bool dry_run, const char* action = "delete");

  // Into the audit log: that `caller` was refused before a change came here, and what the
  // controller decided by itself. What the store does not keep is told by the program's log.
  void NoteRefusal(const char* action, const Caller& caller, const absl::Status& why);
  void NoteDecisions(const std::vector<OwnDecision>& decisions);

  // The newest `limit` entries, the newest first.
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) { return store_->Audit(limit); }

 private:
  using Plan = std::function<absl::StatusOr<PlannedChange>(const ObjectSet&)>;

  Catalog(Store* store, const WallClock* clock, Log* log, Objects objects)
      : store_(store), clock_(clock), log_(log), objects_(std::move(objects)) {}

  absl::StatusOr<Outcome> Change(const char* action, const Caller& caller, bool dry_run,
                                 const Plan& plan);
  // REQUIRES: mutex_ is held.
  absl::Status Keep(const PlannedChange& plan, AuditEntry entry);
  void KeepRefusal(AuditEntry entry, const absl::Status& why);
  void KeepAudit(std::vector<AuditEntry> entries);
  AuditEntry EntryOf(const char* action, const Caller& caller) const;

  Store* const store_;
  const WallClock* const clock_;
  Log* const log_;
  std::mutex mutex_;  // of what follows, and of changes
  std::function<void(Objects)> watcher_;
  Admission admission_;
  mutable std::mutex objects_mutex_;  // held for a copy of the pointer, at most
  // Written under both; either is enough to read.
  Objects objects_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_CATALOG_H_
