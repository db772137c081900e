// The protection domain of a tenant on a NIC, and its unused memory windows.
//
// Windows are made in advance, several at a time, because that waits for the device.
//
// OWNER: queue pairs and registered memory, shared. THREAD: the owning engine, except for Open.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_PAIR_DOMAIN_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_PAIR_DOMAIN_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/transport/rdma/verbs.h"
#include "service/transport/rdma/verbs_jobs.h"

namespace mccs {

class PairDomain : public std::enable_shared_from_this<PairDomain> {
 public:
  // LIFETIME: `nic` and `jobs` outlive this.
  PairDomain(VerbsNic& nic, VerbsJobs& jobs, std::string tenant)
      : nic_(nic), jobs_(jobs), tenant_(std::move(tenant)) {}
  ~PairDomain();
  PairDomain(const PairDomain&) = delete;

  const std::string& tenant() const { return tenant_; }
  const NicAttributes& attributes() const { return nic_.attributes(); }
  VerbsNic& nic() const { return nic_; }
  VerbsJobs& jobs() { return jobs_; }

  // The domain itself, made by the first call. THREAD: any; may block.
  absl::StatusOr<ProtectionDomain*> Open();

  // An unused window; null: there is none yet. Errors: the device's.
  absl::StatusOr<std::unique_ptr<MemoryWindow>> TakeWindow();
  // Calls `retry` once, when TakeWindow may succeed. REQUIRES: it has returned null.
  void AwaitWindows(std::function<void()> retry) { waiting_.push_back(std::move(retry)); }
  // REQUIRES: it is not bound any more.
  void ReturnWindow(std::unique_ptr<MemoryWindow> window) { windows_.push_back(std::move(window)); }

 private:
  void MakeWindows();

  VerbsNic& nic_;
  VerbsJobs& jobs_;
  const std::string tenant_;
  std::mutex opening_;
  std::unique_ptr<ProtectionDomain> verbs_;  // guarded by opening_ until it is made

  std::vector<std::unique_ptr<MemoryWindow>> windows_;
  bool making_ = false;
  absl::Status windows_status_;                 // of the last attempt to make some
  std::vector<std::function<void()>> waiting_;  // at most one of each queue pair
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_PAIR_DOMAIN_H_
