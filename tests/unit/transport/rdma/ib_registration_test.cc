// The means by which memory is registered, with functions in the place of libibverbs.
#include "service/transport/rdma/ib_registration.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace mccs {
namespace ib_registration_test {

ibv_mr by_address{}, by_dma_buf{};
bool has_peer_memory = false;  // or it is host memory
uint64_t offset = 0;

ibv_mr* Register(ibv_pd*, void*, size_t, int) {
  errno = EFAULT;
  return has_peer_memory ? &by_address : nullptr;
}
ibv_mr* RegisterDmaBuf(ibv_pd*, uint64_t its_offset, size_t, uint64_t, int, int) {
  offset = its_offset;
  return &by_dma_buf;
}
ibv_mr* RejectDmaBuf(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

class IbRegistrationTest : public testing::Test {
 protected:
  IbRegistrationTest() {
    library_.reg_mr = Register;
    library_.reg_dmabuf_mr = RegisterDmaBuf;
    has_peer_memory = true;
  }
  IbRegistration OnHost() { return RegisterMemory(library_, nullptr, {.bytes = 4096}); }
  IbRegistration OnGpu() {
    return RegisterMemory(library_, nullptr,
                          {.bytes = 4096, .dma_buf = 7, .dma_buf_offset = 1 << 20});
  }

  IbLibrary library_;
};

TEST_F(IbRegistrationTest, HostMemoryIsPinned) {
  EXPECT_EQ(OnHost().region, &by_address);
  EXPECT_EQ(OnHost().means, RegistrationMeans::kPinned);
  has_peer_memory = false;
  EXPECT_EQ(OnHost().region, nullptr);
  EXPECT_EQ(OnHost().error, EFAULT);
}

TEST_F(IbRegistrationTest, GpuMemoryIsRegisteredByItsDmaBuf) {
  EXPECT_EQ(OnGpu().region, &by_dma_buf);
  EXPECT_EQ(OnGpu().means, RegistrationMeans::kDmaBuf);
  EXPECT_EQ(offset, 1u << 20);
}

TEST_F(IbRegistrationTest, GpuMemoryFallsBackToPeerMemoryAndThenFails) {
  for (const auto call : {RejectDmaBuf, decltype(&RejectDmaBuf){nullptr}}) {
    library_.reg_dmabuf_mr = call;
    has_peer_memory = true;
    EXPECT_EQ(OnGpu().region, &by_address);
    EXPECT_EQ(OnGpu().means, RegistrationMeans::kPeerMemory);
    has_peer_memory = false;
    EXPECT_EQ(OnGpu().region, nullptr);
    EXPECT_EQ(OnGpu().error, EFAULT);
  }
}

}  // namespace ib_registration_test
}  // namespace mccs
