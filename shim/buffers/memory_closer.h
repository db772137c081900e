// Closes memory that this process has opened for its kernels, in a thread of its own: CUDA may wait
// for the kernels of the GPU meanwhile, and those may wait for the rank that frees the memory.
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_MEMORY_CLOSER_H_
#define MCCS_SHIM_BUFFERS_MEMORY_CLOSER_H_

#include <chrono>
#include <memory>

#include "base/address_range.h"
#include "shim/buffers/driver_thread.h"
#include "shim/cuda/driver_api.h"
#include "shim/cuda/host_memory.h"

namespace mccs::shim {

class MemoryCloser {
 public:
  // LIFETIME: `driver` is never destroyed: the thread may outlive this.
  explicit MemoryCloser(const DriverApi& driver);

  // Memory of another process or of the daemon, one of three kinds; empty: the process's own.
  struct Opened {
    bool empty() const { return ipc == 0 && mapped.bytes == 0 && host == nullptr; }
    CUcontext context = nullptr;                           // in which it was opened
    CUdeviceptr ipc = 0;                                   // of cuIpcOpenMemHandle, or:
    AddressRange mapped = {};                              // of MapDescriptor, or:
    std::shared_ptr<RegisteredHostMemory> host = nullptr;  // closed by its last owner
  };
  // Closes the memory, and waits for that, kLimit at most: then its owner need not wait longer, and
  // its memory stays allocated until it is closed. A copy that holds it closes it when it ends.
  static constexpr std::chrono::milliseconds kLimit{50};
  void Close(Opened memory);

 private:
  DriverThread<Opened> thread_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_MEMORY_CLOSER_H_
