// How far hosts' monotonic clocks are from the controller's, from round trips of heartbeats
// (proto/agent.proto): in the middle of a trip both clocks meant the same moment, give or take half
// of what it took. No clock of its own, no network.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_HOST_CLOCKS_H_
#define MCCS_CONTROLLER_HOST_CLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace mccs {

// Beyond this no clock is, its own or a host's; sums and differences of such times fit.
inline constexpr MonotonicNs kLatestTime = int64_t{1} << 60;

struct ClockReading {
  int64_t offset_ns = 0;  // what the host's clock shows more than the controller's
  int64_t error_ns = 0;   // it is no further from the truth than that

  // A moment on the one clock, told on the other.
  MonotonicNs OnHost(MonotonicNs controller) const { return controller + offset_ns; }
  MonotonicNs OnController(MonotonicNs host) const { return host - offset_ns; }
};

class HostClocks {
 public:
  // Of these trips the one counts that says most: a short one, or a newer one, as clocks drift.
  static constexpr size_t kKeptTrips = 8;
  // Two clocks of computers go apart by less than this part of the time.
  static constexpr double kDrift = 100e-6;

  // From the controller to the host and back.
  struct Trip {
    MonotonicNs sent = 0;      // on the controller's clock
    MonotonicNs heard = 0;     // on the host's
    MonotonicNs answered = 0;  // likewise
    MonotonicNs came = 0;      // on the controller's
  };

  // False: it cannot be, and is not kept.
  bool Hear(const std::string& host, const Trip& trip);
  // Another daemon may have that name now.
  void Forget(const std::string& host) { hosts_.erase(host); }
  // Nothing: no trip yet. `now` is on the controller's clock.
  std::optional<ClockReading> Read(const std::string& host, MonotonicNs now) const;

 private:
  struct Sample {
    int64_t offset_ns;
    int64_t error_ns;  // when it was taken
    MonotonicNs taken;
  };
  struct Samples {
    std::array<Sample, kKeptTrips> kept;
    size_t count = 0;  // ever taken
  };

  std::map<std::string, Samples> hosts_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_HOST_CLOCKS_H_
