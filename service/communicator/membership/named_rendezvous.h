// Rendezvous that are found by their number, at the controller: those of NCCL_COMM_ID, if the
// cluster has a key (id_keys.h). So a daemon neither opens a port nor dials an address of a
// tenant's choice.
//
//   rank 0's daemon: Open ──► controller ──► FoundRendezvous ──► Seeker of the other daemons
//
// Without the controller, ranks of other hosts wait until it is back; those of this host do not.
//
// A program can seek thousands of names that no rank 0 opens. So a tenant's later ones wait for its
// earlier ones, and tenants take turns if not all fit into a message to the controller.
//
// OWNER: the Daemon. THREAD: the engine only.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_NAMED_RENDEZVOUS_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_NAMED_RENDEZVOUS_H_

#include <cstddef>
#include <list>
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

// Rendezvous that the ranks of one tenant may have open on a host at a time, and may seek.
inline constexpr int kMaxNamedRendezvousPerTenant = 64;
// In one message to the controller; those beyond it wait until others are over.
inline constexpr int kMaxNamedRendezvous = 4096;
// Between two messages: each costs the daemon and the controller time for all entries.
inline constexpr int64_t kNamedRendezvousIntervalNs = 20 * kNsPerMs;

class NamedRendezvous {
 public:
  // Looks for a rendezvous as long as it exists. LIFETIME: `named` outlives it.
  class Seeker {
   public:
    // `tenant`: for whom it counts. Wakes `waker` when there is an answer. LIFETIME: it outlives
    // the seeker.
    Seeker(NamedRendezvous& named, CommId id, const std::string& tenant, Waker* waker);
    ~Seeker();
    Seeker(const Seeker&) = delete;

    // The next answer; nothing if there is no new one.
    std::optional<FoundRendezvous> Take() { return std::exchange(found_, std::nullopt); }

   private:
    friend class NamedRendezvous;
    NamedRendezvous& named_;
    const CommId id_;
    const std::string tenant_;
    Waker* const waker_;
    std::optional<FoundRendezvous> found_;
    bool active_ = false;                 // else it waits for others of its tenant
    std::list<Seeker*>::iterator place_;  // in the Tenant's list
  };

  // LIFETIME: the arguments outlive it.
  NamedRendezvous(ControllerLink& controller, const Rendezvous& rendezvous, const Clock& clock)
      : controller_(controller), rendezvous_(rendezvous), clock_(clock) {}

  // Where other daemons reach this one.
  void SetOwn(const std::string& host, const Endpoint& at) { own_ = {CommId(0), host, at}; }

  // The rendezvous, which is registered, is open here until it is over. kResourceExhausted: the
  // tenant has too many.
  absl::Status Open(CommId id, const std::string& tenant);

  // Tells the controller what has changed, and takes its answers. Returns true if there was any.
  bool Poll();
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const {
    if (seen_ended_ != rendezvous_.ended()) return 0;
    return changed_ ? next_message_ : kNever;
  }

 private:
  struct Tenant {
    std::list<Seeker*> active, waiting;
  };

  void Begin(Seeker& seeker);
  void Activate(Tenant& tenant, Seeker& seeker);
  void End(Seeker& seeker);
  FoundRendezvous Here(CommId id) const;
  void Answer(const FoundRendezvous& found);
  void DropThoseThatAreOver();
  void Send();

  ControllerLink& controller_;
  const Rendezvous& rendezvous_;
  const Clock& clock_;
  FoundRendezvous own_{};
  std::map<CommId, std::string> open_;      // with the tenant
  std::map<std::string, Tenant> tenants_;   // those with seekers
  std::multimap<CommId, Seeker*> seekers_;  // the active ones
  // The controller's last ones, of ids that are sought: it does not repeat them for a seeker that
  // replaces another one.
  std::map<CommId, FoundRendezvous> answers_;
  uint64_t seen_ended_ = 0;  // Rendezvous::ended() at the last look
  bool changed_ = false;     // since the last message
  MonotonicNs next_message_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_NAMED_RENDEZVOUS_H_
