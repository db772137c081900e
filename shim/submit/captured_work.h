// Work that is captured into CUDA graphs.
//
// A captured group is sent to the daemon once, during capture. The graph gets three word operations
// per stream: clear "done", write "ready", wait for "done" (proto/shim_wire.h). A replay makes no
// call into this library.
//
// The graph holds a CaptureLease as a user object. When the last graph made of the capture is
// destroyed, the lease ends, and with it the daemon's state and the slots.
#ifndef MCCS_SHIM_SUBMIT_CAPTURED_WORK_H_
#define MCCS_SHIM_SUBMIT_CAPTURED_WORK_H_

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
#include "shim/cuda/driver_api.h"
#include "shim/daemon/fence.h"
#include "shim/submit/session.h"

namespace mccs::shim {

// The capture of a stream; id 0: none.
struct StreamCapture {
  unsigned long long id = 0;
  CUgraph graph = nullptr;
};
// Errors: kUnknown if the capture is invalid, or the driver cannot report it.
absl::StatusOr<StreamCapture> CaptureOf(const DriverApi& driver, CUstream stream);

// The free captured slots of one communicator. THREAD: any.
class CapturedSlots {
 public:
  std::optional<uint32_t> Take();
  void Release(uint32_t slot);

 private:
  std::mutex mutex_;
  uint32_t fresh_ = 0;  // slots from here on were never taken
  std::vector<uint32_t> free_;
};

// The ready word of a stream in a captured group.
struct CapturedPlace {
  uint32_t slot = 0;
  uint32_t group = 0;  // within the slot, from 1
};

// One communicator's part of one capture.
// LIFETIME: as long as a graph may be replayed; it may outlive communicator and session. THREAD:
// under the communicator's submit lock; its destructor runs in any thread, also where no CUDA
// function may be called.
class CaptureLease {
 public:
  CaptureLease(const std::shared_ptr<Session>& session, std::shared_ptr<CapturedSlots> slots,
               uint32_t comm_handle);
  ~CaptureLease();
  CaptureLease(const CaptureLease&) = delete;
  CaptureLease& operator=(const CaptureLease&) = delete;

  uint64_t number() const { return number_; }
  // The place of the next group on the stream with this key; unchanged until CommitPlace. nullopt:
  // all slots are in use.
  std::optional<CapturedPlace> PlaceOf(uint64_t stream_key);
  // Marks the allocation as in use while this object lives, because graphs use it without calls.
  // REQUIRES: the session exists.
  void Pin(const wire::BufferRef& ref, uint64_t bytes);
  // Takes over staging memory of an ended communicator that the graph's copies still use. It
  // returns to the session when the graph is destroyed.
  void AdoptBlock(std::unique_ptr<StagingBlock> block) { staging_.push_back(std::move(block)); }
  // Call it when the daemon has accepted a group at this place of the stream.
  void CommitPlace(uint64_t stream_key) { ++places_.at(stream_key).group; }

 private:
  const std::weak_ptr<Session> session_;  // weak, because its destructor calls CUDA
  const std::shared_ptr<CapturedSlots> slots_;
  const uint32_t comm_handle_;
  const uint64_t number_;
  std::vector<std::unique_ptr<StagingBlock>> staging_;
  std::map<uint64_t, CapturedPlace> places_;  // of the next group, by stream
  std::map<uint64_t, uint64_t> pinned_;       // bytes by address
};

// All captures of one communicator. THREAD: under its submit lock.
class Captures {
 public:
  Captures(std::shared_ptr<Session> session, uint32_t comm_handle)
      : session_(std::move(session)), comm_handle_(comm_handle) {}

  // The lease of this capture; the first call creates it and hands it to the graph.
  absl::StatusOr<std::shared_ptr<CaptureLease>> LeaseOf(const StreamCapture& capture);
  // The lease that LeaseOf created for CUDA's id; null if there is none.
  std::shared_ptr<CaptureLease> Find(unsigned long long capture) const;
  // Whether some graph can still be replayed.
  bool alive() const;
  // Whether there ever was a graph. THREAD: any.
  bool used() const { return used_.load(); }

 private:
  const std::shared_ptr<Session> session_;
  const uint32_t comm_handle_;
  const std::shared_ptr<CapturedSlots> slots_ = std::make_shared<CapturedSlots>();
  std::map<unsigned long long, std::weak_ptr<CaptureLease>> leases_;  // by CUDA's id
  std::atomic<bool> used_{false};  // set before a capture is sent to the daemon
};

// The word operations of a captured group before its calls, on one of its streams: "ready" of all
// communicators first, then their waits.
absl::Status CaptureReady(const DriverApi& driver, const FencePage& page, CUstream stream,
                          const CapturedPlace& place);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_CAPTURED_WORK_H_
