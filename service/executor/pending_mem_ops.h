// Assigns finished MemOps to their owners: the token is the address of a counter.
#ifndef MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_
#define MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_

#include <cstdint>

#include "service/device/device.h"

namespace mccs {

// MemOps of one step or copy that the device has not finished.
// LIFETIME: this and `of_owner` keep their addresses while any are outstanding.
struct PendingMemOps {
  uint32_t outstanding = 0;
  uint32_t* of_owner = nullptr;  // outstanding MemOps of the owner, which must outlive them

  // Submits `op` to the device. False: its queue is full.
  bool Submit(Device& device, const MemOp& op) {
    ++outstanding;
    ++*of_owner;
    if (device.Submit(op, reinterpret_cast<MemToken>(this))) return true;
    Finished(reinterpret_cast<MemToken>(this));
    return false;
  }

  static void Finished(MemToken token) {
    auto* pending = reinterpret_cast<PendingMemOps*>(token);
    --pending->outstanding;
    --*pending->of_owner;
  }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_
