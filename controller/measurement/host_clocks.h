// Offsets between hosts' monotonic clocks and the controller's, from heartbeat round trips
// (proto/agent.proto). Midway through a trip both clocks show the same moment, ± half the round
// trip time. Has no clock and no network of its own.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_MEASUREMENT_HOST_CLOCKS_H_
#define MCCS_CONTROLLER_MEASUREMENT_HOST_CLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace mccs {

// Upper bound of all clock values, so that sums and differences do not overflow.
inline constexpr MonotonicNs kLatestTime = int64_t{1} << 60;

struct ClockReading {
  int64_t offset_ns = 0;  // host clock − controller clock
  int64_t error_ns = 0;   // maximal error of offset_ns

  // Convert a time between the two clocks.
  MonotonicNs OnHost(MonotonicNs controller) const { return controller + offset_ns; }
  MonotonicNs OnController(MonotonicNs host) const { return host - offset_ns; }
};

class HostClocks {
 public:
  // Number of stored trips. Read uses the one with the smallest error: error grows with age
  // (drift).
  static constexpr size_t kKeptTrips = 8;
  // Maximal relative drift of two clocks.
  static constexpr double kDrift = 100e-6;

  // A heartbeat from the controller to the host and back.
  struct Trip {
    MonotonicNs sent = 0;         // on the controller's clock
    MonotonicNs received_at = 0;  // on the host's clock
    MonotonicNs answered = 0;     // on the host's clock
    MonotonicNs returned_at = 0;  // on the controller's clock
  };

  // A trip that contradicts earlier ones shows that a clock has jumped, as after a suspension of a
  // virtual machine; they are dropped. False: the times are impossible, and the trip is ignored.
  bool AddTrip(const std::string& host, const Trip& trip);
  // Call when another daemon may use that name.
  void Remove(const std::string& host) { hosts_.erase(host); }
  // Nothing: no trip yet. `now` is on the controller's clock.
  std::optional<ClockReading> Read(const std::string& host, MonotonicNs now) const;

 private:
  struct Sample {
    int64_t offset_ns;
    int64_t error_ns;  // at `taken`
    MonotonicNs taken;
  };
  struct Samples {
    std::array<Sample, kKeptTrips> kept;
    size_t count = 0;  // ever taken
  };

  // Both cannot be right, whatever their errors and the drift.
  static bool Contradicts(const Sample& sample, const Samples& earlier);

  std::map<std::string, Samples> hosts_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_MEASUREMENT_HOST_CLOCKS_H_
