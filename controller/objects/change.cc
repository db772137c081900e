#include "controller/objects/change.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/closest_word.h"
#include "base/status_macros.h"
#include "controller/objects/cross_check.h"

namespace mccs {
namespace {

// Rejects objects that occur more than once.
absl::Status CheckNamedOnce(const std::vector<Object>& objects) {
  std::map<ObjectKey, const Object*> seen;
  for (const Object& object : objects) {
    const auto [first, is_first] = seen.emplace(object.key, &object);
    if (is_first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(PlaceOf(object, "metadata.name"), ": ", ToText(object.key),
                     " is a duplicate: first defined at ", PlaceOf(*first->second, "metadata.name"),
                     "; remove one of them"));
  }
  return absl::OkStatus();
}

// Checks that `object` edits the stored version.
absl::Status CheckVersion(const ObjectSet& stored, const Object& object) {
  if (object.version == 0) return absl::OkStatus();
  const Object* known = stored.Find(object.key);
  const std::string place = absl::StrCat(PlaceOf(object, "metadata.resourceVersion"), ": ",
                                         ToText(object.key), ", metadata.resourceVersion: ");
  if (known == nullptr) {
    return absl::AbortedError(
        absl::StrCat(place, "version ", object.version,
                     " is not stored, and the object does not exist: it was deleted, or is from "
                     "another cluster; omit resourceVersion to create it"));
  }
  if (known->version == object.version) return absl::OkStatus();
  if (known->version < object.version) {
    return absl::AbortedError(absl::StrCat(place, "version ", object.version,
                                           " does not exist: the stored version is ",
                                           known->version, "; omit resourceVersion to replace it"));
  }
  return absl::AbortedError(absl::StrCat(
      place, "version ", object.version, " is outdated: the stored version is ", known->version,
      "; get the object again and repeat the change, or omit resourceVersion to replace it"));
}

absl::Status CheckVersions(const ObjectSet& stored, const std::vector<Object>& objects) {
  std::vector<std::string> faults;
  for (const Object& object : objects) {
    const absl::Status status = CheckVersion(stored, object);
    if (!status.ok()) faults.emplace_back(status.message());
  }
  return faults.empty() ? absl::OkStatus() : absl::AbortedError(absl::StrJoin(faults, "\n"));
}

absl::Status CheckTogether(const ObjectSet& set) {
  const std::vector<ObjectError> faults = CheckObjects(set);
  return faults.empty() ? absl::OkStatus() : absl::FailedPreconditionError(ToText(set, faults));
}

absl::Status StillReferredTo(const ObjectSet& set, const ObjectError& fault) {
  const Object& user = *set.Find(fault.object);
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot delete: ", ToText(user.key), " (stored, version ", user.version,
      ") still refers to it in ", fault.field, "; change or delete that object first"));
}

}  // namespace

bool PlannedChange::IsNothing() const {
  return std::all_of(changes.begin(), changes.end(),
                     [](const ObjectChange& c) { return c.kind == ChangeKind::kUnchanged; });
}

absl::StatusOr<PlannedChange> PlanApply(const ObjectSet& stored, std::vector<Object> objects) {
  MCCS_RETURN_IF_ERROR(CheckNamedOnce(objects));
  MCCS_RETURN_IF_ERROR(CheckVersions(stored, objects));
  PlannedChange plan{stored, {}};
  const uint64_t revision = stored.revision + 1;
  for (Object& object : objects) {
    const Object* known = stored.Find(object.key);
    ObjectChange change{object.key, ChangeKind::kCreated, "", DocumentOf(object, false)};
    if (known != nullptr) {
      const bool same = known->spec == object.spec;
      change.kind = same ? ChangeKind::kUnchanged : ChangeKind::kChanged;
      change.before = DocumentOf(*known, false);
    }
    object.version = change.kind == ChangeKind::kUnchanged ? known->version : revision;
    plan.changes.push_back(std::move(change));
    plan.next.objects[object.key] = std::move(object);
  }
  if (plan.next.objects.size() > ObjectSet::kMaxObjects) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many objects: the limit is ", ObjectSet::kMaxObjects, "; delete some"));
  }
  MCCS_RETURN_IF_ERROR(CheckTogether(plan.next));
  if (!plan.IsNothing()) plan.next.revision = revision;
  return plan;
}

void ForgetOrigins(ObjectSet* set) {
  for (auto& [key, object] : set->objects) object.origin.reset();
}

absl::StatusOr<PlannedChange> PlanDelete(const ObjectSet& stored,
                                         const std::vector<ObjectKey>& keys) {
  PlannedChange plan{stored, {}};
  for (const ObjectKey& key : keys) {
    if (stored.Find(key) == nullptr) return UnknownObject(stored, key);
    const auto known = plan.next.objects.find(key);
    if (known == plan.next.objects.end()) continue;  // Duplicate key.
    plan.changes.push_back({key, ChangeKind::kDeleted, DocumentOf(known->second, false), ""});
    plan.next.objects.erase(known);
  }
  // The stored objects are consistent: each fault is a reference to a deleted one.
  if (const std::vector<ObjectError> faults = CheckObjects(plan.next); !faults.empty())
    return StillReferredTo(plan.next, faults.front());
  if (!plan.IsNothing()) ++plan.next.revision;
  return plan;
}

absl::StatusOr<std::vector<ObjectKey>> KeysToDelete(const ObjectSet& stored,
                                                    const std::vector<Object>& objects) {
  MCCS_RETURN_IF_ERROR(CheckNamedOnce(objects));
  MCCS_RETURN_IF_ERROR(CheckVersions(stored, objects));
  std::vector<ObjectKey> keys;
  for (const Object& object : objects) keys.push_back(object.key);
  return keys;
}

absl::Status UnknownObject(const ObjectSet& set, const ObjectKey& key) {
  return absl::NotFoundError(
      absl::StrCat("unknown ", ToText(key), Suggestion(key.name, set.NamesOf(key.kind), "")));
}

}  // namespace mccs
