// Rendezvous that are found by their number, at the controller: those of NCCL_COMM_ID, if the
// cluster has a key (id_keys.h). So a daemon neither opens a port nor dials an address of a
// tenant's choice.
//
//   rank 0's daemon: Open ──► controller ──► FoundRendezvous ──► Seeker of the other daemons
//
// Without the controller, ranks of other hosts wait until it is back; those of this host do not.
//
// OWNER: the Daemon. THREAD: the engine only.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_NAMED_RENDEZVOUS_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_NAMED_RENDEZVOUS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/ids.h"
#include "base/waker.h"
#include "service/communicator/links/controller_link.h"
#include "service/communicator/membership/rendezvous.h"

namespace mccs {

// Rendezvous that the ranks of one tenant may have open on a host at a time.
inline constexpr int kMaxNamedRendezvousPerTenant = 64;
// In one message to the controller; those beyond it wait until others are over.
inline constexpr int kMaxNamedRendezvous = 4096;

class NamedRendezvous {
 public:
  // Looks for a rendezvous as long as it exists. LIFETIME: `named` outlives it.
  class Seeker {
   public:
    // Wakes `waker` when there is an answer. LIFETIME: it outlives the seeker.
    Seeker(NamedRendezvous& named, CommId id, Waker* waker);
    ~Seeker();
    Seeker(const Seeker&) = delete;

    // The next answer; nothing if there is no new one.
    std::optional<FoundRendezvous> Take() { return std::exchange(found_, std::nullopt); }

   private:
    friend class NamedRendezvous;
    NamedRendezvous& named_;
    const CommId id_;
    Waker* const waker_;
    std::optional<FoundRendezvous> found_;
  };

  // LIFETIME: `controller` and `rendezvous` outlive it.
  NamedRendezvous(ControllerLink& controller, const Rendezvous& rendezvous)
      : controller_(controller), rendezvous_(rendezvous) {}

  // Where other daemons reach this one.
  void SetOwn(const std::string& host, const Endpoint& at) { own_ = {CommId(0), host, at}; }

  // The rendezvous, which is registered, is open here until it is over. kResourceExhausted: the
  // tenant has too many.
  absl::Status Open(CommId id, const std::string& tenant);

  // Tells the controller what has changed, and takes its answers. Returns true if there was any.
  bool Poll();
  // 0: Poll has work now; else never.
  MonotonicNs NextDeadline() const {
    return changed_ || seen_ended_ != rendezvous_.ended() ? 0 : kNever;
  }

 private:
  FoundRendezvous Here(CommId id) const;
  void Answer(const FoundRendezvous& found);
  void DropThoseThatAreOver();
  void Send();

  ControllerLink& controller_;
  const Rendezvous& rendezvous_;
  FoundRendezvous own_{};
  std::map<CommId, std::string> open_;  // with the tenant
  std::multimap<CommId, Seeker*> seekers_;
  // The controller's last ones, of ids that are sought: it does not repeat them for a seeker that
  // replaces another one.
  std::map<CommId, FoundRendezvous> answers_;
  uint64_t seen_ended_ = 0;  // Rendezvous::ended() at the last look
  bool changed_ = false;     // since the last message
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_NAMED_RENDEZVOUS_H_
