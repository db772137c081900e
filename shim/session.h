// One life of the connection to the daemon, and what hangs off it. When the daemon dies its session
// ends for good; what comes later opens another.
#ifndef MCCS_SHIM_SESSION_H_
#define MCCS_SHIM_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "shim/buffer_export.h"
#include "shim/daemon_client.h"
#include "shim/driver_api.h"
#include "shim/fence.h"
#include "shim/staging_pool.h"
#include "shim/stream_wait.h"
#include "shim/virtual_allocations.h"

namespace mccs::shim {

// LIFETIME: held by the process and by each communicator that was made in it.
struct Session {
  Session(const DriverApi& cuda, const StreamWait& waits, const VirtualAllocations& allocations,
          FenceGraveyard& pages, std::unique_ptr<DaemonClient> connection,
          std::chrono::milliseconds export_lease)
      : driver(cuda),
        stream_wait(waits),
        graveyard(pages),
        client(std::move(connection)),
        buffers(cuda, allocations, *client, export_lease),
        staging(cuda, buffers) {}

  const DriverApi& driver;
  const StreamWait stream_wait;
  FenceGraveyard& graveyard;
  std::unique_ptr<DaemonClient> client;
  BufferExports buffers;
  StagingPool staging;
  std::atomic<uint64_t> next_capture{1};  // the name of the next capture among all communicators
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SESSION_H_
