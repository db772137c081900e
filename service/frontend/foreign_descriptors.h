// Descriptors that a tenant sent and that the daemon has no use for.
//
// Closing one may take as long as the tenant likes: a file of a FUSE file system asks its server
// first, a TCP socket with SO_LINGER waits for its peer. So whatever is no memory file is closed on
// a thread that has nothing else to do.
#ifndef MCCS_SERVICE_FRONTEND_FOREIGN_DESCRIPTORS_H_
#define MCCS_SERVICE_FRONTEND_FOREIGN_DESCRIPTORS_H_

#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace mccs {

// OWNER: a door and its channels together. THREAD: the owning engine only. Never blocks.
class ForeignDescriptors {
 public:
  // Threads at a time, each with the descriptors of one message. There is none as long as tenants
  // send what they should.
  static constexpr int kMostThreads = 64;

  ForeignDescriptors();
  ForeignDescriptors(const ForeignDescriptors&) = delete;
  ForeignDescriptors& operator=(const ForeignDescriptors&) = delete;

  // Closes them some time. With kMostThreads that wait for their tenants they stay open until one
  // of these comes back and somebody calls this again; the process's end closes what is left.
  void Bury(std::vector<UniqueFd> descriptors);

 private:
  struct Threads;
  bool CloseElsewhere(std::vector<int>* descriptors);

  const std::shared_ptr<Threads> threads_;  // which outlive this
  std::vector<int> open_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_FOREIGN_DESCRIPTORS_H_
