// Descriptors that a tenant sent and that the daemon has no use for.
//
// Closing one may take as long as the tenant likes: a file of a FUSE file system asks its server
// first, a TCP socket with SO_LINGER waits for its peer. So whatever is no memory file is closed on
// a thread that has nothing else to do.
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

// OWNER: a door and its channels together. THREAD: the owning engine only. Never blocks.
class ForeignDescriptors {
 public:
  // Threads at a time, each with the descriptors of one message. There is none as long as tenants
  // send what they should.
  static constexpr int kMostThreads = 64;
  // Not closed yet. Beyond it nothing more is taken from this tenant: some messages' worth.
  static constexpr size_t kMostOfTenant = 1024;
  // Of all tenants of the door; a fraction of the daemon's descriptors (service/process_limits.cc).
  static constexpr size_t kMostOfAll = 8192;

  ForeignDescriptors();
  ForeignDescriptors(const ForeignDescriptors&) = delete;
  ForeignDescriptors& operator=(const ForeignDescriptors&) = delete;

  // Closes them some time. With kMostThreads that wait for their tenants they stay open until one
  // of these comes back and somebody calls this or IsFull again; the process's end closes what is
  // left.
  void Bury(const std::string& tenant, std::vector<UniqueFd> descriptors);

  // Take no descriptors from this tenant: it, or all together, have as many as there may be.
  bool IsFull(const std::string& tenant);
  // The same, whoever comes.
  bool IsFull();

 private:
  // Written by the engine and by the thread that closes: only the number matters.
  using Count = std::atomic<size_t>;
  struct Shared;
  struct Buried {
    int fd;
    std::shared_ptr<Count> of_tenant;
  };
  struct Burial;
  static void* Close(void* burial);
  void CloseOpen();
  bool CloseElsewhere(std::vector<Buried>* descriptors);

  const std::shared_ptr<Shared> shared_;  // with the threads, which outlive this
  std::vector<Buried> open_;
  absl::flat_hash_map<std::string, std::shared_ptr<Count>> unclosed_;  // by tenant
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_FOREIGN_DESCRIPTORS_H_
