// Accepts the connections to the controller's port.
//
// gRPC's own listener (1.51) stops for good when the process has no file descriptor for a
// connection: a client that opens enough of them would end the port until a restart. This one goes
// on, and it leaves connections for other addresses: one address may have as many as it leaves
// free.
//
// THREAD: one of its own calls `take`; the other functions: the owner's.
#ifndef MCCS_CONTROLLER_API_ACCEPTOR_H_
#define MCCS_CONTROLLER_API_ACCEPTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace mccs {

// The connections that are open, by address. Knows one by its descriptor and the kernel's cookie of
// the socket, and so notices that another thread has closed it. Addresses of IPv6 count by /64, the
// smallest part that one machine usually has.
class OpenConnections {
 public:
  explicit OpenConnections(size_t most) : most_(most) {}

  // Counts the connected socket `fd`. Otherwise the reason: its address has as many as it leaves
  // free.
  absl::Status Add(int fd, MonotonicNs now);
  size_t size() const { return open_.size(); }

 private:
  struct Connection {
    uint64_t cookie = 0;
    std::string address;
  };

  void Erase(int fd);
  void EraseClosed(MonotonicNs now);

  const size_t most_;
  MonotonicNs looks_again_at_ = 0;  // for closed ones, which takes a call of the kernel for each
  std::unordered_map<int, Connection> open_;
  std::unordered_map<std::string, size_t> by_address_;
};

class Acceptor {
 public:
  using Take = std::function<void(UniqueFd connection)>;

  // Listens at "ADDRESS:PORT"; port 0: the system chooses. A name may have several addresses.
  // kUnavailable: no address can be used. LIFETIME: `log` outlives it.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::string& address, Log* log);
  // Closes the port. After it, nothing calls `take`.
  ~Acceptor();

  int port() const { return port_; }
  // Call once. `take` gets each connection, not blocking.
  void Start(Take take);

 private:
  explicit Acceptor(Log* log);

  absl::Status Bind(const std::string& address);
  void Run();
  // False: the process has no descriptor or memory for a connection now.
  bool AcceptFrom(int listener);

  const SystemClock clock_;
  LimitedWarnings warnings_;
  OpenConnections open_;
  std::vector<UniqueFd> listeners_;
  UniqueFd stop_;  // readable: Run ends
  int port_ = 0;
  Take take_;
  std::thread thread_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_ACCEPTOR_H_
