#include "service/transport/rdma/ib_registration.h"

#include <cerrno>

namespace mccs {
namespace {

// Peers write through windows only.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

}  // namespace

IbRegistration RegisterMemory(const IbLibrary& library, ibv_pd* domain,
                              const MemoryToRegister& memory) {
  const bool on_gpu = memory.dma_buf >= 0;
  if (on_gpu && library.reg_dmabuf_mr != nullptr) {
    ibv_mr* const region =
        library.reg_dmabuf_mr(domain, memory.dma_buf_offset, memory.bytes,
                              reinterpret_cast<uintptr_t>(memory.address), memory.dma_buf, kAccess);
    if (region != nullptr) return {.region = region, .means = RegistrationMeans::kDmaBuf};
  }
  ibv_mr* const region = (library.reg_mr)(domain, memory.address, memory.bytes, kAccess);
  if (region == nullptr) return {.error = errno};
  return {.region = region,
          .means = on_gpu ? RegistrationMeans::kPeerMemory : RegistrationMeans::kPinned};
}

}  // namespace mccs
