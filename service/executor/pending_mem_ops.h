// Assigns finished MemOps to their owners: the token is the address of a counter.
#ifndef MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_
#define MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_

#include <cstdint>

#include "service/device/device.h"

namespace mccs {

// MemOps of one step or copy that the device has not finished.
// LIFETIME: this and `owner_outstanding` keep their addresses while any are outstanding.
struct PendingMemOps {
  uint32_t outstanding = 0;
  uint32_t* owner_outstanding =
      nullptr;  // outstanding MemOps of the owner, which must outlive them

  // Submits `op` to the device. False: its queue is full.
  bool Submit(Device& device, const MemOp& op) {
    ++outstanding;
    ++*owner_outstanding;
    if (device.Submit(op, reinterpret_cast<MemToken>(this))) return true;
    Finished(reinterpret_cast<MemToken>(this));
    return false;
  }

  static void Finished(MemToken token) {
    auto* pending = reinterpret_cast<PendingMemOps*>(token);
    --pending->outstanding;
    --*pending->owner_outstanding;
  }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_
