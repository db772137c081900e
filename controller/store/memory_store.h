// A store in memory: for a controller without a path, for tests, and for the simulator, where it
// survives the controller's restarts.
#ifndef MCCS_CONTROLLER_STORE_MEMORY_STORE_H_
#define MCCS_CONTROLLER_STORE_MEMORY_STORE_H_

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "controller/store/store.h"

namespace mccs {

class MemoryStore final : public Store {
 public:
  absl::StatusOr<StoredState> Load() override;
  absl::Status Commit(const StoreChange& change) override;
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) override;

 private:
  std::mutex mutex_;  // guards all members below
  uint64_t revision_ = 0;
  std::map<std::pair<std::string, std::string>, StoredObject> objects_;
  std::map<CommId, StoredStrategy> strategies_;
  std::deque<AuditEntry> audit_;  // oldest first
  uint64_t last_audit_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_MEMORY_STORE_H_
