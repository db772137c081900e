// What the controller says about how fast a communicator may send: rates, windows, a class. It acts
// at once, without an epoch, until something newer is said.
//
// Values.
#ifndef MCCS_SERVICE_PACING_PACE_H_
#define MCCS_SERVICE_PACING_PACE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace mccs {

// The rate of one lane's payload. A lane that is not named has none of its own.
struct LanePace {
  ChannelId channel;
  HostIndex from;
  HostIndex to;
  uint64_t rate_bps = 0;

  friend bool operator==(const LanePace&, const LanePace&) = default;
};

// Time in which a communicator may send: [origin + n × period, … + open) for each whole n.
struct SendWindows {
  int64_t period_ns = 0;  // 0: no windows, it may send at any time
  MonotonicNs origin_ns = 0;
  int64_t open_ns = 0;  // 1 … period_ns

  bool OpenAt(MonotonicNs now) const;
  // When they are open next, for a time at which they are not.
  MonotonicNs NextOpening(MonotonicNs now) const;

  friend bool operator==(const SendWindows&, const SendWindows&) = default;
};

struct Pace {
  uint64_t revision = 0;  // the highest counts
  std::vector<LanePace> lanes = {};
  uint32_t priority = 0;  // class; the higher ones go first (nic_classes.h)
  SendWindows windows = {};
  // Of all lanes of the Tenant out of one NIC; 0: no limit, and no name.
  uint64_t tenant_rate_bps = 0;
  std::string tenant = {};

  // Nothing is limited, and nobody goes after it.
  bool IsFree() const;

  friend bool operator==(const Pace&, const Pace&) = default;
};

inline constexpr uint32_t kMaxPriority = 7;

// What packets bear as DSCP in their IP header, by class. Those of communicators of which the
// controller says nothing bear none.
using Markings = std::array<uint8_t, kMaxPriority + 1>;
inline constexpr uint8_t kMaxDscp = 63;
// What daemons say to each other bears the mark of the highest class that has one: no tenant's data
// goes before it.
uint8_t ControlMark(const Markings& markings);

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_PACE_H_
