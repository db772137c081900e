// Descriptors that a tenant sent and that the daemon does not use.
//
// The tenant can delay a close without limit: closing a file of a FUSE file system asks its server,
// and a TCP socket with SO_LINGER waits for its peer. So a separate thread closes every descriptor
// that is not a memory file.
#ifndef MCCS_SERVICE_FRONTEND_FOREIGN_DESCRIPTORS_H_
#define MCCS_SERVICE_FRONTEND_FOREIGN_DESCRIPTORS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/unique_fd.h"

namespace mccs {

// OWNER: a listener and its channels together. THREAD: the owning engine only. Never blocks.
class ForeignDescriptors {
 public:
  // Maximum number of threads, each with the descriptors of one message. There are none if tenants
  // send only valid descriptors.
  static constexpr int kMaxThreads = 64;
  // Unclosed descriptors of one tenant: those of some messages. At the limit, the daemon receives
  // nothing more from the tenant.
  static constexpr size_t kMaxPerTenant = 1024;
  // Unclosed descriptors of all tenants; a fraction of the daemon's limit
  // (service/process_limits.cc).
  static constexpr size_t kMaxTotal = 8192;

  ForeignDescriptors();
  ForeignDescriptors(const ForeignDescriptors&) = delete;
  ForeignDescriptors& operator=(const ForeignDescriptors&) = delete;

  // Closes the descriptors asynchronously. While kMaxThreads threads wait, they stay open until
  // one of these ends and CloseAsync or IsFull is called again. The exit of the daemon closes the
  // rest.
  void CloseAsync(const std::string& tenant, std::vector<UniqueFd> descriptors);

  // Whether to receive no descriptors from this tenant: it, or all tenants together, are at the
  // limit.
  bool IsFull(const std::string& tenant);
  // The same for all tenants together.
  bool IsFull();

 private:
  // Written by the engine and by the closing thread; protects no other data.
  using Count = std::atomic<size_t>;
  struct Shared;
  struct Descriptor {
    int fd;
    std::shared_ptr<Count> of_tenant;
  };
  struct CloseTask;
  static void* Close(void* task);
  void CloseOpen();
  bool CloseOnThread(std::vector<Descriptor>* descriptors);

  const std::shared_ptr<Shared> shared_;  // with the threads, which may outlive this object
  std::vector<Descriptor> open_;
  absl::flat_hash_map<std::string, std::shared_ptr<Count>> unclosed_;  // by tenant
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_FOREIGN_DESCRIPTORS_H_
