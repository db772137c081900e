// A slow registrar: it completes registrations and releases when the test says so.
#ifndef MCCS_TESTS_CONTRACT_HELD_REGISTRAR_H_
#define MCCS_TESTS_CONTRACT_HELD_REGISTRAR_H_

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "service/transport/registration.h"

namespace mccs {

// Forwards to a transport's own registrar, which has the keys of its NICs.
class HeldRegistrar final : public Registrar {
 public:
  // LIFETIME: `inner` outlives this.
  explicit HeldRegistrar(Registrar& inner) : inner_(inner) {}

  std::optional<absl::Status> Register(RegistrationId id, const Region& region,
                                       const NicDomain& domain) override {
    ++started;
    if (!failure.ok()) return Later(id, failure);
    const std::optional<absl::Status> done = inner_.Register(id, region, domain);
    return done.has_value() ? Later(id, *done) : done;
  }
  bool Release(RegistrationId id) override {
    ++released;
    return inner_.Release(id) && Later(id, absl::OkStatus()).has_value();
  }
  size_t Poll(std::span<Finished> finished) override {
    std::vector<Finished> more(finished.size());
    more.resize(inner_.Poll(more));
    held_.insert(held_.end(), more.begin(), more.end());
    if (hold) return 0;
    const size_t count = std::min(held_.size(), finished.size());
    std::copy_n(held_.begin(), count, finished.begin());
    held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }

  bool hold = false;     // complete nothing
  absl::Status failure;  // of registrations that start now
  int started = 0;
  int released = 0;

 private:
  // Completes now, unless work is held.
  std::optional<absl::Status> Later(RegistrationId id, const absl::Status& status) {
    if (!hold) return status;
    held_.push_back({id, status});
    return std::nullopt;
  }

  Registrar& inner_;
  std::vector<Finished> held_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_HELD_REGISTRAR_H_
