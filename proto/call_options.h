// What a program asks for one call besides its result: the vendor options of a ncclCollConfig_t, on
// their way from shim to daemon and on to whoever shows them.
#ifndef MCCS_PROTO_CALL_OPTIONS_H_
#define MCCS_PROTO_CALL_OPTIONS_H_

#include <cstdint>

namespace mccs {

inline constexpr uint8_t kHighestPriority = 7;

// What it costs the program when the call is late.
enum class Criticality : uint8_t {
  kUnsaid = 0,
  kBackground = 1,  // nobody waits for it
  kNormal = 2,
  kCritical = 3,  // every rank stands still until it is done
};

// 0 everywhere: nothing was said.
struct CallOptions {
  uint32_t deadline_us = 0;  // wanted: done so long after the inputs are there
  uint8_t priority = 0;      // 1 yields to all others … kHighestPriority goes first
  Criticality criticality = Criticality::kUnsaid;

  bool said() const {
    return deadline_us != 0 || priority != 0 || criticality != Criticality::kUnsaid;
  }
  friend bool operator==(const CallOptions&, const CallOptions&) = default;
};

// Of a communicator, the calls that said anything.
struct CallsWithOptions {
  uint64_t calls = 0;
  uint64_t last_number = 0;  // the communicator's number of the last of them
  CallOptions last;
};

}  // namespace mccs

#endif  // MCCS_PROTO_CALL_OPTIONS_H_
