// A rate update of the controller for one communicator: rate limits, send windows, priority class.
// It takes effect at once, without an epoch, until a newer update.
//
// Values.
#ifndef MCCS_SERVICE_PACING_RATE_LIMITS_H_
#define MCCS_SERVICE_PACING_RATE_LIMITS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/ids.h"

namespace mccs {

// The rate limit of one lane's payload. A lane that is not named has none of its own.
struct LaneRateLimit {
  ChannelId channel;
  HostIndex from;
  HostIndex to;
  uint64_t rate_bps = 0;

  friend bool operator==(const LaneRateLimit&, const LaneRateLimit&) = default;
};

// Times at which a communicator may send: [origin + n × period, … + open) for each integer n.
struct SendWindows {
  int64_t period_ns = 0;  // 0: no send windows, it may send at any time
  MonotonicNs origin_ns = 0;
  int64_t open_ns = 0;  // 1 … period_ns

  bool OpenAt(MonotonicNs now) const;
  // The next opening. REQUIRES: closed at `now`.
  MonotonicNs NextOpening(MonotonicNs now) const;

  friend bool operator==(const SendWindows&, const SendWindows&) = default;
};

struct RateLimits {
  uint64_t revision = 0;  // the highest wins
  std::vector<LaneRateLimit> lanes = {};
  uint32_t priority = 0;  // class; higher ones have precedence (host_pacing.h)
  SendWindows windows = {};
  // Limit for all lanes of the Tenant per NIC, in bit/s; 0: no limit, and no name.
  uint64_t tenant_rate_bps = 0;
  std::string tenant = {};

  // No limits, and the lowest class.
  bool IsUnlimited() const;

  friend bool operator==(const RateLimits&, const RateLimits&) = default;
};

// The rate limits of the lanes that one host sends, by lane. A communicator has as many as lanes.
class SentRates {
 public:
  SentRates(const RateLimits& limits, HostIndex from);
  // Of the lane on `channel` to `to`, in bit/s; nothing: it is not named.
  std::optional<uint64_t> RateOf(ChannelId channel, HostIndex to) const;

 private:
  absl::flat_hash_map<std::pair<ChannelId, HostIndex>, uint64_t> rates_;
};

inline constexpr uint32_t kMaxPriority = 7;

// DSCP in the IP header of packets, by class. Packets of communicators without a rate update have
// none.
using DscpMap = std::array<uint8_t, kMaxPriority + 1>;
inline constexpr uint8_t kMaxDscp = 63;
// Connections between daemons other than lanes have the mark of the highest class that has one, so
// that tenants' data does not delay them.
uint8_t ControlDscp(const DscpMap& markings);

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_RATE_LIMITS_H_
