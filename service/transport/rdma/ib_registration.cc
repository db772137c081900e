#include "service/transport/rdma/ib_registration.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr int kHostAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
// Linux rejects dma-bufs with IBV_ACCESS_MW_BIND.
constexpr int kDmaBufAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

constexpr const char* kNoFunction =
    "libibverbs has no ibv_reg_dmabuf_mr; install rdma-core 34 or later";

}  // namespace

IbRegistration RegisterMemory(const IbLibrary& library, ibv_pd* domain,
                              const MemoryToRegister& memory) {
  IbRegistration made;
  if (memory.dma_buf < 0) {
    made.region = (library.reg_mr)(domain, reinterpret_cast<void*>(memory.address),  // NOLINT
                                   memory.bytes, kHostAccess);
  } else if (library.reg_dmabuf_mr != nullptr) {
    made.means = RegistrationMeans::kDmaBuf;
    made.region = library.reg_dmabuf_mr(domain, memory.dma_buf_offset, memory.bytes, memory.address,
                                        memory.dma_buf, kDmaBufAccess);
  } else {
    errno = EOPNOTSUPP;
  }
  if (made.region == nullptr) made.error = errno;
  return made;
}

// Linux looks at the descriptor only if the driver can register dma-bufs, so an invalid one shows
// whether it can.
std::string WhyNoDmaBufs(const IbLibrary& library, ibv_pd* domain) {
  if (library.reg_dmabuf_mr == nullptr) return kNoFunction;
  constexpr size_t kBytes = 4096;
  ibv_mr* const region = library.reg_dmabuf_mr(domain, 0, kBytes, 0, -1, kDmaBufAccess);
  if (region != nullptr) {
    (library.dereg_mr)(region);
    return "";
  }
  if (errno == EBADF) return "";
  return absl::StrCat("its driver cannot register dma-bufs (", std::strerror(errno),
                      "); use a device and driver that can, such as mlx5 with Linux 5.12 or later");
}

}  // namespace mccs
