// Plans the result of applying or deleting objects. Pure; a plan is complete or an error.
#ifndef MCCS_CONTROLLER_OBJECTS_CHANGE_H_
#define MCCS_CONTROLLER_OBJECTS_CHANGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object.h"

namespace mccs {

enum class ChangeKind { kUnchanged, kCreated, kChanged, kDeleted };

struct ObjectChange {
  ObjectKey key;
  ChangeKind kind = ChangeKind::kUnchanged;
  std::string before, after;  // documents without version; empty: does not exist
};

struct PlannedChange {
  ObjectSet next;
  std::vector<ObjectChange> changes;  // one per named object, in their order

  bool IsNothing() const;  // no object changes
};

// `objects` as ReadObjects returns them. Changed objects get the version next.revision, unchanged
// ones keep theirs. `next` still has origins, for error messages of later checks; remove them
// before storing (ForgetOrigins).
// kAborted: an object's resourceVersion is not the stored one. kFailedPrecondition: the result is
// inconsistent (CheckObjects). kInvalidArgument: duplicate object. kResourceExhausted: more than
// ObjectSet::kMaxObjects.
absl::StatusOr<PlannedChange> PlanApply(const ObjectSet& stored, std::vector<Object> objects);

// Removes the origins: stored objects have no file.
void ForgetOrigins(ObjectSet* set);

// kNotFound: one of `keys` is not stored. kFailedPrecondition: a remaining object refers to one.
absl::StatusOr<PlannedChange> PlanDelete(const ObjectSet& stored,
                                         const std::vector<ObjectKey>& keys);

// The keys of `objects`. kAborted: as for PlanApply.
absl::StatusOr<std::vector<ObjectKey>> KeysToDelete(const ObjectSet& stored,
                                                    const std::vector<Object>& objects);

// kNotFound, with the most similar name.
absl::Status UnknownObject(const ObjectSet& set, const ObjectKey& key);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_CHANGE_H_
