// GPU memory of one process that another one opens: by a CUDA IPC handle, or as a descriptor of
// virtual memory.
#ifndef MCCS_EMULATION_PROBE_SHARED_MEMORY_H_
#define MCCS_EMULATION_PROBE_SHARED_MEMORY_H_

#include "emulation/probe/probe.h"

namespace mccs::probe {

enum class SharingMethod { kIpc, kDescriptor };

// Sends and receives a descriptor over a peer's socket; -1 if there is none.
bool SendDescriptor(int socket, int fd);
int ReceiveDescriptor(int socket);

// Passes if there is a GPU 1 that can access the memory of GPU 0, else skips. Asks in a process of
// its own, so that this one can still start others.
Outcome SecondGpu();

// Memory on GPU `device`, mapped for kernels of that GPU.
CUmemAllocationProp DeviceMemory(int device, CUmemAllocationHandleType types);
Outcome MapForDevice(CUmemGenericAllocationHandle handle, size_t bytes, int device,
                     CUdeviceptr* address);

// Memory of this process on GPU 0. LIFETIME: the process.
class SharedAllocation {
 public:
  Outcome Make(SharingMethod method, size_t bytes);
  Outcome Send(Peer& peer) const;
  uint64_t* words() const { return reinterpret_cast<uint64_t*>(address_); }
  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  SharingMethod method_ = SharingMethod::kIpc;
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
};

// All that the other process needs to open it.
struct SharedDescription {
  CUipcMemHandle handle{};
  size_t bytes = 0;
  int fd = -1;
};
Outcome ReceiveShared(Peer& self, SharingMethod method, SharedDescription* description);
// Opens it for kernels of GPU `device`. REQUIRES: a current context.
Outcome OpenDescription(const SharedDescription& description, SharingMethod method, int device,
                        CUdeviceptr* address);
Outcome CloseShared(const SharedDescription& description, SharingMethod method,
                    CUdeviceptr address);
// Receives and opens.
Outcome OpenShared(Peer& self, SharingMethod method, int device, uint64_t** words);

}  // namespace mccs::probe

#endif  // MCCS_EMULATION_PROBE_SHARED_MEMORY_H_
