// How a NIC gets access to memory: by pinned pages, or by the dma-buf of memory on a GPU.
//
//   host memory      ibv_reg_mr
//   memory on a GPU  ibv_reg_dmabuf_mr; without it ibv_reg_mr, which the module nvidia-peermem
//   serves
//
// If none works, lanes copy through bounce buffers. On-demand paging is not used: whether windows
// of type 2 can be bound to such memory depends on the device.
//
// THREAD: any. Blocks for the device.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_IB_REGISTRATION_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_IB_REGISTRATION_H_

#include <infiniband/verbs.h>

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

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_IB_REGISTRATION_H_
