// Work of one communicator on this host, by kind of call; also added to its tenant's counters.
//
// OWNER: the Communicator. THREAD: the owning engine.
#ifndef MCCS_SERVICE_WORK_TALLY_H_
#define MCCS_SERVICE_WORK_TALLY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "proto/operation.h"
#include "service/counters.h"

namespace mccs {

struct KindWork {
  uint64_t operations = 0;
  uint64_t bytes = 0;  // of the calls: count × size of type
};

// By OpKind.
using WorkByKind = std::array<KindWork, kOpKinds>;

class WorkTally {
 public:
  explicit WorkTally(std::shared_ptr<TenantCounters> tenant) : tenant_(std::move(tenant)) {}

  // Counts one completed operation.
  void Count(OpKind kind, uint64_t bytes) {
    const auto index = static_cast<size_t>(kind);
    ++work_[index].operations;
    work_[index].bytes += bytes;
    tenant_->work[index].operations.Add(1);
    tenant_->work[index].bytes.Add(bytes);
  }
  const WorkByKind& work() const { return work_; }

 private:
  const std::shared_ptr<TenantCounters> tenant_;
  WorkByKind work_ = {};
};

}  // namespace mccs

#endif  // MCCS_SERVICE_WORK_TALLY_H_
