// How a NIC gets access to memory: by pinned pages, or by the dma-buf of memory on a GPU.
//
//   host memory      ibv_reg_mr, with windows for peers
//   memory on a GPU  ibv_reg_dmabuf_mr, with a key for peers: Linux binds no windows to it
//
// ibv_reg_mr with the address of memory on a GPU (nvidia-peermem) is not used: it works only in the
// process that has the address in a CUDA context, and in another one it would register whatever is
// there. On-demand paging is not used: whether windows of type 2 can be bound to such memory
// depends on the device.
//
// THREAD: any. Blocks for the device.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_IB_REGISTRATION_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_IB_REGISTRATION_H_

#include <infiniband/verbs.h>

#include <string>

#include "service/transport/rdma/ib_library.h"
#include "service/transport/rdma/verbs.h"

namespace mccs {

struct IbRegistration {
  ibv_mr* region = nullptr;  // null: `error`
  RegistrationMeans means = RegistrationMeans::kPinned;
  int error = 0;  // errno
};

IbRegistration RegisterMemory(const IbLibrary& library, ibv_pd* domain,
                              const MemoryToRegister& memory);

// Why dma-bufs cannot be registered in the domain, and the remedy; empty: they can.
std::string WhyNoDmaBufs(const IbLibrary& library, ibv_pd* domain);

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_IB_REGISTRATION_H_
