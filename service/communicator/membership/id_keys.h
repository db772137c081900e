// Proof that a daemon of this cluster made a unique id: a MAC with a key that the controller gives
// to daemons and no tenant has. A daemon dials the address in an id, so it takes no other ids. An
// id that the library makes of NCCL_COMM_ID becomes, with the same key, one that belongs to its
// tenant and has no address.
//
//   no key ──Set──► the cluster's key       before Set: every id is right
//   own key ──Set──► the cluster's key      before Set: only the ids of this daemon are right
//
// OWNER: the Daemon. THREAD: the engine only.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_ID_KEYS_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_ID_KEYS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "proto/unique_id.h"

namespace mccs {

class IdKeys {
 public:
  // How long a daemon still signs with the key before, until all daemons have the new one.
  static constexpr int64_t kNewKeyAfterNs = 60 * kNsPerSec;

  // `own`: a random key for the time until the controller's arrives; empty: none.
  explicit IdKeys(std::string own = {}) : newest_(std::move(own)), awaits_key_(!newest_.empty()) {}

  // The controller's key; empty: it has none, and earlier ones stay. A controller without a stored
  // key has another one after a restart, so the key before is accepted too.
  void Set(const std::string& key, MonotonicNs now);

  // Without a key: leaves the MAC zero.
  void Sign(wire::UniqueId* id, MonotonicNs now) const;
  // kPermissionDenied: no daemon of the cluster has made the id. kUnavailable: this daemon has not,
  // and its own key is the only one. Without a key: every id is right.
  absl::Status Check(const wire::UniqueId& id) const;
  // Replaces number, secret and address of an id that was made of NCCL_COMM_ID. Without a key:
  // changes nothing. Daemons with the same key get the same result; kUnavailable: no other daemon
  // has this one's.
  absl::Status Name(wire::UniqueId* id, const std::string& tenant) const;

 private:
  std::string newest_;
  std::string before_;
  MonotonicNs newest_since_ = 0;
  bool awaits_key_;  // newest_ is this daemon's own
};

// Whether the id has no address, so that its rendezvous is found by its number.
inline bool IsNamed(const wire::UniqueId& id) { return id.port == 0; }

// Whether both ids are the same, whatever key has signed them.
bool SameId(const wire::UniqueId& a, const wire::UniqueId& b);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_ID_KEYS_H_
