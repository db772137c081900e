// When one operation reached each step on this host, for `mccsctl trace communicator`. Code that
// may be traced holds a pointer to the stamps, which is null unless a trace runs.
//
// OWNER: the OperationLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_EXECUTOR_OPERATION_STAMPS_H_
#define MCCS_SERVICE_EXECUTOR_OPERATION_STAMPS_H_

#include "base/clock.h"

namespace mccs {

// 0: not reached. A plan without lanes never reaches the three times of slices.
struct OperationStamps {
  const Clock* clock = nullptr;  // LIFETIME: outlives the stamps

  MonotonicNs first_posted = 0;  // the record of the first local rank was seen
  MonotonicNs all_posted = 0;    // those of all local ranks were seen
  MonotonicNs started = 0;       // all ready words were seen, and the operation started
  MonotonicNs first_sent = 0;    // a lane took the first slice
  MonotonicNs first_landed = 0;  // the first slice was seen to have landed
  MonotonicNs last_landed = 0;
  MonotonicNs device_done = 0;  // the device's plan was done
  MonotonicNs done = 0;         // the done words were written

  void OnSent() {
    if (first_sent == 0) first_sent = clock->Now();
  }
  void OnLanded() {
    last_landed = clock->Now();
    if (first_landed == 0) first_landed = last_landed;
  }
  void OnDeviceDone() {
    if (device_done == 0) device_done = clock->Now();
  }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_OPERATION_STAMPS_H_
