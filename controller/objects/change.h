// What applying or deleting objects makes of those that are stored. Pure: all of it or nothing.
#ifndef MCCS_CONTROLLER_OBJECTS_CHANGE_H_
#define MCCS_CONTROLLER_OBJECTS_CHANGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object_set.h"

namespace mccs {

enum class ChangeKind { kUnchanged, kCreated, kChanged, kDeleted };

struct ObjectChange {
  ObjectKey key;
  ChangeKind kind = ChangeKind::kUnchanged;
  std::string before, after;  // documents without version; empty: there is none
};

struct PlannedChange {
  ObjectSet next;
  std::vector<ObjectChange> changes;  // one for each object that was named, in its order

  bool IsNothing() const;  // every object stays as it is
};

// `objects` as ReadObjects returns them. What they change has the version next.revision, what they
// repeat keeps its own. In `next` they still have their origins, for errors of whoever looks at it
// next; who keeps it has no use for them (ForgetOrigins).
// kAborted: an object claims to be an edit of a version that is not the stored one.
// kFailedPrecondition: the result does not hold together (CheckObjects). kInvalidArgument: an object
// stands there twice. kResourceExhausted: more than ObjectSet::kMaxObjects.
absl::StatusOr<PlannedChange> PlanApply(const ObjectSet& stored, std::vector<Object> objects);

// What is kept is nobody's file any more.
void ForgetOrigins(ObjectSet* set);

// kNotFound: one of `keys` is not stored. kFailedPrecondition: what stays names what would go.
absl::StatusOr<PlannedChange> PlanDelete(const ObjectSet& stored,
                                         const std::vector<ObjectKey>& keys);

// What would be deleted for `objects`: their keys. kAborted: as for PlanApply.
absl::StatusOr<std::vector<ObjectKey>> KeysToDelete(const ObjectSet& stored,
                                                    const std::vector<Object>& objects);

// kNotFound, with the name that was meant.
absl::Status NotThere(const ObjectSet& set, const ObjectKey& key);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_CHANGE_H_
