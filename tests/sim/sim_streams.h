// Streams over the simulator's network, for tests that need both ends at once.
#ifndef MCCS_TESTS_SIM_SIM_STREAMS_H_
#define MCCS_TESTS_SIM_SIM_STREAMS_H_

#include <functional>
#include <memory>
#include <utility>

#include "base/check.h"
#include "service/transport/network.h"

namespace mccs {

struct StreamEnds {
  std::unique_ptr<Connection> from;
  std::unique_ptr<Connection> to;
};

// Opens a stream from a host's network to a listener. `advance` delivers bytes and advances time.
inline StreamEnds OpenStream(Network& from, Listener& to, const std::function<void()>& advance) {
  absl::StatusOr<std::unique_ptr<Connection>> opened = from.Connect(to.local(), {});
  MCCS_CHECK(opened.ok());
  for (;;) {
    advance();
    absl::StatusOr<std::unique_ptr<Connection>> accepted = to.Accept();
    MCCS_CHECK(accepted.ok());
    if (*accepted != nullptr) return {.from = *std::move(opened), .to = *std::move(accepted)};
  }
}

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_STREAMS_H_
