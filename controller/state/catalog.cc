#include "controller/state/catalog.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "controller/objects/cross_check.h"

namespace mccs {
namespace {

constexpr size_t kMaxObjectsInAudit = 20;
constexpr size_t kLongestOutcome = 1000;  // bytes
constexpr size_t kLongestCaller = 200;
// Peer in audit entries of the controller's own decisions. No transport uses this name.
constexpr char kTheController[] = "mccs-controller";

// For the log.
std::string CallerText(const AuditEntry& entry) {
  return absl::StrCat(entry.action, " by ", entry.user.empty() ? "an unnamed user" : entry.user,
                      " from ", entry.peer);
}

const char* Verb(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kUnchanged:
      return "unchanged";
    case ChangeKind::kCreated:
      return "created";
    case ChangeKind::kChanged:
      return "changed";
    case ChangeKind::kDeleted:
      return "deleted";
  }
  return "";
}

// "created Tenant 'a'; changed Policy 'b'".
std::string Summary(const std::vector<ObjectChange>& changes) {
  std::vector<std::string> parts;
  size_t left_out = 0;
  for (const ObjectChange& change : changes) {
    if (change.kind == ChangeKind::kUnchanged) continue;
    if (parts.size() == kMaxObjectsInAudit) {
      ++left_out;
      continue;
    }
    parts.push_back(absl::StrCat(Verb(change.kind), " ", ToText(change.key)));
  }
  if (left_out > 0) parts.push_back(absl::StrCat("and ", left_out, " more"));
  return absl::StrJoin(parts, "; ");
}

absl::StatusOr<Object> ReadStored(const StoredObject& stored) {
  const std::string name = absl::StrCat("stored ", stored.kind, " ", stored.name);
  MCCS_ASSIGN_OR_RETURN(std::vector<Object> objects, ReadObjects({{name, stored.document}}));
  const bool itself = objects.size() == 1 && KindName(objects[0].key.kind) == stored.kind &&
                      objects[0].key.name == stored.name;
  if (!itself) return absl::InvalidArgumentError(absl::StrCat(name, ": contains another object"));
  objects[0].version = stored.version;
  objects[0].origin.reset();
  return std::move(objects[0]);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Catalog>> Catalog::Open(Store* store, const WallClock* clock,
                                                       Log* log) {
  MCCS_ASSIGN_OR_RETURN(const StoredState state, store->Load());
  ObjectSet set;
  set.revision = state.revision;
  const auto lost = [](std::string_view why) {
    return absl::DataLossError(
        absl::StrCat("cannot read objects in the store: ", std::string(why),
                     "; another release wrote them: start that release, or use an empty store and "
                     "apply the objects again"));
  };
  for (const StoredObject& stored : state.objects) {
    absl::StatusOr<Object> object = ReadStored(stored);
    if (!object.ok()) return lost(std::string(object.status().message()));
    set.objects[object->key] = *std::move(object);
  }
  if (const std::vector<ObjectError> faults = CheckObjects(set); !faults.empty()) {
    return lost(ToText(set, faults));
  }
  return std::unique_ptr<Catalog>(
      new Catalog(store, clock, log, std::make_shared<const ObjectSet>(std::move(set))));
}

void Catalog::Watch(std::function<void(Objects)> watcher) {
  const std::lock_guard lock(changes_mutex_);
  watcher_ = std::move(watcher);
  watcher_(objects_);
}

void Catalog::SetAdmission(Admission admission) {
  const std::lock_guard lock(objects_mutex_);
  admission_ = std::move(admission);
}

Catalog::Objects Catalog::objects() const {
  const std::lock_guard lock(objects_mutex_);
  return objects_;
}

absl::StatusOr<Catalog::Outcome> Catalog::Apply(const std::vector<ObjectFile>& files,
                                                const Caller& caller, bool dry_run,
                                                const char* action) {
  MCCS_RETURN_IF_ERROR(CheckRole(action, caller, dry_run));
  // Without a mutex: an operator's text may take seconds.
  const absl::StatusOr<std::vector<Object>> objects = ReadObjects(files);
  return Change(action, caller, dry_run,
                [&](const ObjectSet& stored) -> absl::StatusOr<PlannedChange> {
                  MCCS_RETURN_IF_ERROR(objects.status());
                  return PlanApply(stored, *objects);
                });
}

absl::StatusOr<Catalog::Outcome> Catalog::Delete(const std::vector<ObjectKey>& keys,
                                                 const std::vector<ObjectFile>& files,
                                                 const Caller& caller, bool dry_run,
                                                 const char* action) {
  MCCS_RETURN_IF_ERROR(CheckRole(action, caller, dry_run));
  const absl::StatusOr<std::vector<Object>> objects = ReadObjects(files);  // as in Apply
  return Change(
      action, caller, dry_run, [&](const ObjectSet& stored) -> absl::StatusOr<PlannedChange> {
        MCCS_RETURN_IF_ERROR(objects.status());
        MCCS_ASSIGN_OR_RETURN(const std::vector<ObjectKey> read, KeysToDelete(stored, *objects));
        std::vector<ObjectKey> all = keys;
        all.insert(all.end(), read.begin(), read.end());
        return PlanDelete(stored, all);
      });
}

absl::Status Catalog::CheckRole(const char* action, const Caller& caller, bool dry_run) {
  absl::Status rejection = CheckMayChangeSome(caller.role);
  if (!rejection.ok() && !dry_run) AuditRejection(action, caller, rejection);
  return rejection;
}

absl::StatusOr<Catalog::Outcome> Catalog::Change(const char* action, const Caller& caller,
                                                 bool dry_run, const Plan& plan) {
  Admission admission;
  {
    const std::lock_guard lock(objects_mutex_);
    admission = admission_;
  }
  const auto plan_for = [&](const ObjectSet& before) -> absl::StatusOr<PlannedChange> {
    MCCS_ASSIGN_OR_RETURN(PlannedChange planned, plan(before));
    MCCS_RETURN_IF_ERROR(CheckMayChange(caller.role, before, planned));
    if (admission) MCCS_RETURN_IF_ERROR(admission(before, planned.next));
    return planned;
  };
  Objects before = objects();
  absl::StatusOr<PlannedChange> planned = plan_for(*before);
  std::unique_lock changes(changes_mutex_, std::defer_lock);
  if (planned.ok() && !dry_run) {
    changes.lock();
    // Once: no other change replaces the objects while the mutex is held.
    if (Objects now = objects(); now->revision != before->revision) {
      before = std::move(now);
      planned = plan_for(*before);
    }
  }
  if (!planned.ok()) {
    if (!dry_run) AuditRejection(action, caller, planned.status());
    return planned.status();
  }
  ForgetOrigins(&planned->next);
  if (!dry_run) {
    MCCS_ASSIGN_OR_RETURN(const Objects stored, Commit(*planned, action, caller));
    if (watcher_ && !planned->IsNothing()) watcher_(stored);
  }
  return Outcome{before, *std::move(planned)};
}

absl::StatusOr<Catalog::Objects> Catalog::Commit(const PlannedChange& plan, const char* action,
                                                 const Caller& caller) {
  auto stored = std::make_shared<const ObjectSet>(plan.next);
  const std::lock_guard lock(mutex_);  // Audit entries have the revision of the objects.
  MCCS_RETURN_IF_ERROR(CommitChange(plan, EntryOf(action, caller)));
  const std::lock_guard pointer(objects_mutex_);
  objects_ = stored;
  return stored;
}

absl::Status Catalog::CommitChange(const PlannedChange& plan, AuditEntry entry) {
  StoreChange change;
  change.revision = plan.next.revision;
  for (const ObjectChange& each : plan.changes) {
    const char* kind = KindName(each.key.kind);
    if (each.kind == ChangeKind::kDeleted) change.erase_objects.emplace_back(kind, each.key.name);
    if (each.kind != ChangeKind::kCreated && each.kind != ChangeKind::kChanged) continue;
    const Object* object = plan.next.Find(each.key);
    change.put_objects.push_back({kind, each.key.name, object->version, each.after});
  }
  entry.objects = Summary(plan.changes);
  entry.outcome = plan.IsNothing() ? "nothing to do" : "done";
  entry.revision = plan.next.revision;
  const std::string summary =
      absl::StrCat(CallerText(entry), ": ", entry.objects.empty() ? entry.outcome : entry.objects);
  change.audit.push_back(std::move(entry));
  MCCS_RETURN_IF_ERROR(store_->Commit(change));
  log_->Info(summary);
  return absl::OkStatus();
}

void Catalog::CommitRejection(AuditEntry entry, const absl::Status& why) {
  const std::optional<uint64_t> unlisted = rejections_.Admit(entry.user, entry.time);
  if (!unlisted.has_value()) return;
  const std::string others =
      *unlisted > 0 ? absl::StrCat(" (", *unlisted, " of this user before it are not listed)") : "";
  const std::string outcome = absl::StrCat("rejected: ", std::string(why.message()));
  entry.outcome = CutText(outcome, kLongestOutcome - others.size()) + others;
  entry.revision = objects_->revision;
  log_->Info(CallerText(entry), " ", entry.outcome);
  CommitAudit({std::move(entry)});
}

void Catalog::CommitAudit(std::vector<AuditEntry> entries) {
  StoreChange change;
  change.revision = objects_->revision;
  change.audit = std::move(entries);
  if (const absl::Status kept = store_->Commit(change); !kept.ok()) {
    log_->Error("cannot write the preceding entry to the audit log: ", std::string(kept.message()));
  }
}

AuditEntry Catalog::EntryOf(const char* action, const Caller& caller) const {
  return {.time = clock_->Now(),
          .peer = CutText(caller.peer, kLongestCaller),
          .user = CutText(caller.user, kLongestCaller),
          .action = action,
          .objects = "",
          .outcome = "",
          .user_proven = caller.user_proven};
}

void Catalog::AuditRejection(const char* action, const Caller& caller, const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  CommitRejection(EntryOf(action, caller), why);
}

void Catalog::AuditEvents(const std::vector<ControllerEvent>& decisions) {
  if (decisions.empty()) return;
  const std::lock_guard lock(mutex_);
  std::vector<AuditEntry> entries;
  for (const ControllerEvent& decision : decisions) {
    AuditEntry& entry = entries.emplace_back(
        EntryOf(decision.action.c_str(), {.peer = kTheController, .user = ""}));
    entry.objects = CutText(decision.objects, kLongestOutcome);
    entry.outcome = CutText(decision.outcome, kLongestOutcome);
    entry.revision = objects_->revision;
  }
  CommitAudit(std::move(entries));
}

}  // namespace mccs
