// Work that is captured into CUDA graphs.
//
// A captured group is told to the daemon once, while it is captured. What the graph gets is three
// word operations per stream: clear "done", write "ready", wait for "done" (proto/shim_wire.h). A
// replay makes no call into this library.
//
// The graph holds a CaptureLease, as a user object: when the last graph that was made of the
// capture is gone, so is the lease, and with it the daemon's part and the slots.
#ifndef MCCS_SHIM_CAPTURED_WORK_H_
#define MCCS_SHIM_CAPTURED_WORK_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "shim/driver_api.h"
#include "shim/fence.h"
#include "shim/session.h"

namespace mccs::shim {

// The capture that a stream is part of; id 0: none.
struct StreamCapture {
  unsigned long long id = 0;
  CUgraph graph = nullptr;
};
// Errors: kUnknown where the capture has become invalid, or the driver cannot tell.
absl::StatusOr<StreamCapture> CaptureOf(const DriverApi& driver, CUstream stream);

// Which captured slots of one communicator are free. THREAD: any.
class CapturedSlots {
 public:
  std::optional<uint32_t> Take();
  void GiveBack(uint32_t slot);

 private:
  std::mutex mutex_;
  uint32_t fresh_ = 0;  // from here on none was ever taken
  std::vector<uint32_t> free_;
};

// Where a stream of a captured group says that it has come.
struct CapturedPlace {
  uint32_t slot = 0;
  uint32_t group = 0;  // within the slot, from 1
};

// One communicator's part of one capture.
// LIFETIME: as long as a graph may be replayed; it may outlive communicator and session. THREAD:
// under the communicator's submit lock; its end in any thread, also where no CUDA function may be
// called.
class CaptureLease {
 public:
  CaptureLease(const std::shared_ptr<Session>& session, std::shared_ptr<CapturedSlots> slots,
               uint32_t comm_handle);
  ~CaptureLease();
  CaptureLease(const CaptureLease&) = delete;
  CaptureLease& operator=(const CaptureLease&) = delete;

  uint64_t number() const { return number_; }
  // For the next group on the stream with this key; the same again until Took. nullopt: all slots
  // are in use.
  std::optional<CapturedPlace> PlaceOf(uint64_t stream_key);
  // What the daemon's buffers hold there is used, as long as this lives, though no call names it.
  // REQUIRES: the session is there.
  void Keep(const wire::BufferRef& ref, uint64_t bytes);
  // Staging memory that the graph's copies use, of a communicator that has ended: it goes back to
  // the session when the graph is gone.
  void Inherit(std::unique_ptr<StagingBlock> block) { staging_.push_back(std::move(block)); }
  // The daemon has accepted a group at this place of the stream.
  void Took(uint64_t stream_key) { ++places_.at(stream_key).group; }

 private:
  const std::weak_ptr<Session> session_;  // whose end calls CUDA
  const std::shared_ptr<CapturedSlots> slots_;
  const uint32_t comm_handle_;
  const uint64_t number_;
  std::vector<std::unique_ptr<StagingBlock>> staging_;
  std::map<uint64_t, CapturedPlace> places_;  // of the next group, by stream
  std::map<uint64_t, uint64_t> kept_;         // bytes by address
};

// All captures of one communicator. THREAD: under its submit lock.
class Captures {
 public:
  Captures(std::shared_ptr<Session> session, uint32_t comm_handle)
      : session_(std::move(session)), comm_handle_(comm_handle) {}

  // The lease of this capture; made and given to its graph when it is the first.
  absl::StatusOr<std::shared_ptr<CaptureLease>> LeaseOf(const StreamCapture& capture);
  // The lease that LeaseOf has made for CUDA's id; null where there is none.
  std::shared_ptr<CaptureLease> Find(unsigned long long capture) const;
  // Some graph can still be replayed.
  bool alive() const;
  // There was a graph. THREAD: any.
  bool used() const { return used_.load(); }

 private:
  const std::shared_ptr<Session> session_;
  const uint32_t comm_handle_;
  const std::shared_ptr<CapturedSlots> slots_ = std::make_shared<CapturedSlots>();
  std::map<unsigned long long, std::weak_ptr<CaptureLease>> leases_;  // by CUDA's id
  std::atomic<bool> used_{false};  // set before the daemon hears of a capture
};

// The word operations of a captured group on one of its streams: before all other communicators'
// waits, and after all their "ready".
absl::Status CaptureReady(const DriverApi& driver, const FencePage& page, CUstream stream,
                          const CapturedPlace& place);
absl::Status CaptureWait(const Session& session, const FencePage& page, CUstream stream,
                         const CapturedPlace& place);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CAPTURED_WORK_H_
