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

// Each object stands in the files once.
absl::Status CheckNamedOnce(const std::vector<Object>& objects) {
  std::map<ObjectKey, const Object*> seen;
  for (const Object& object : objects) {
    const auto [first, is_first] = seen.emplace(object.key, &object);
    if (is_first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(PlaceOf(object, "metadata.name"), ": ", ToText(object.key),
                     " stands here again; it is already at ",
                     PlaceOf(*first->second, "metadata.name"), ": take one of them away"));
  }
  return absl::OkStatus();
}

// Whether `object` is an edit of what is stored.
absl::Status CheckVersion(const ObjectSet& stored, const Object& object) {
  if (object.version == 0) return absl::OkStatus();
  const Object* known = stored.Find(object.key);
  const std::string place = absl::StrCat(PlaceOf(object, "metadata.resourceVersion"), ": ",
                                         ToText(object.key), ", metadata.resourceVersion: ");
  if (known == nullptr) {
    return absl::AbortedError(
        absl::StrCat(place, "version ", object.version,
                     " is not stored, nor is any other: it was deleted, or is another cluster's; "
                     "leave the version out to create it"));
  }
  if (known->version == object.version) return absl::OkStatus();
  if (known->version < object.version) {
    return absl::AbortedError(absl::StrCat(
        place, "version ", object.version, " was never given out, what is stored has version ",
        known->version, "; leave the version out to replace it"));
  }
  return absl::AbortedError(absl::StrCat(
      place, "version ", object.version, " is older than what is stored, version ", known->version,
      ": somebody changed it meanwhile; get it again and repeat your change, or leave the version "
      "out to replace it"));
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
  const std::vector<Fault> faults = CheckObjects(set);
  return faults.empty() ? absl::OkStatus() : absl::FailedPreconditionError(ToText(set, faults));
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
    return absl::ResourceExhaustedError(absl::StrCat(
        "this controller keeps ", ObjectSet::kMaxObjects, " objects at most; delete some"));
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
    if (stored.Find(key) == nullptr) return NotThere(stored, key);
    const auto known = plan.next.objects.find(key);
    if (known == plan.next.objects.end()) continue;  // Named twice.
    plan.changes.push_back({key, ChangeKind::kDeleted, DocumentOf(known->second, false), ""});
    plan.next.objects.erase(known);
  }
  if (const absl::Status status = CheckTogether(plan.next); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("what stays needs what would go; change or delete it too: ",
                     std::string(status.message())));
  }
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

absl::Status NotThere(const ObjectSet& set, const ObjectKey& key) {
  const std::vector<std::string> names = set.NamesOf(key.kind);
  const std::string* near = ClosestWord(key.name, names);
  return absl::NotFoundError(absl::StrCat(
      "there is no ", ToText(key),
      near != nullptr ? absl::StrCat("; did you mean '", *near, "'?") : std::string()));
}

}  // namespace mccs
