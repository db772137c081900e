// Who a MemOp that comes back from the device belongs to: the token is the address of a count.
#ifndef MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_
#define MCCS_SERVICE_EXECUTOR_PENDING_MEM_OPS_H_

#include <cstdint>

#include "service/device/device.h"

namespace mccs {

// MemOps of one piece of work that the device has and has not finished.
// LIFETIME: it and `of_owner` stay where they are while there are any.
struct PendingMemOps {
  uint32_t outstanding = 0;
  uint32_t* of_owner = nullptr;  // all those of whoever must outlive them

  // Hands `op` to the device. False: its queue is full.
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
