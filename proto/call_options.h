// A program's options for one call: the vendor options of a ncclCollConfig_t, sent from the shim to
// the daemon and shown to operators.
#ifndef MCCS_PROTO_CALL_OPTIONS_H_
#define MCCS_PROTO_CALL_OPTIONS_H_

#include <cstdint>

namespace mccs {

inline constexpr uint8_t kHighestPriority = 7;

// The cost to the program of a late call.
enum class Criticality : uint8_t {
  kUnspecified = 0,
  kBackground = 1,  // the program does not wait for it
  kNormal = 2,
  kCritical = 3,  // all ranks wait for it
};

// All 0: no options.
struct CallOptions {
  uint32_t deadline_us = 0;  // wanted completion, in µs after the inputs are ready
  uint8_t priority = 0;      // 1 (lowest) … kHighestPriority
  Criticality criticality = Criticality::kUnspecified;

  bool any_set() const {
    return deadline_us != 0 || priority != 0 || criticality != Criticality::kUnspecified;
  }
  friend bool operator==(const CallOptions&, const CallOptions&) = default;
};

// The calls of a communicator that had options.
struct CallsWithOptions {
  uint64_t calls = 0;
  uint64_t last_number = 0;  // the communicator's number of the last of them
  CallOptions last;
};

}  // namespace mccs

#endif  // MCCS_PROTO_CALL_OPTIONS_H_
