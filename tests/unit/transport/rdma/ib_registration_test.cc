// The means by which memory is registered, with functions in the place of libibverbs.
#include "service/transport/rdma/ib_registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/mentions.h"

namespace mccs {
namespace ib_registration_test {

ibv_mr by_address{}, by_dma_buf{};
bool accepts_addresses = true;
uint64_t offset = 0, address = 0;
int access_flags = 0;

ibv_mr* Register(ibv_pd*, void*, size_t, int access) {
  access_flags = access;
  errno = EFAULT;
  return accepts_addresses ? &by_address : nullptr;
}
// As Linux does.
ibv_mr* RegisterDmaBuf(ibv_pd*, uint64_t its_offset, size_t, uint64_t its_address, int descriptor,
                       int access) {
  offset = its_offset;
  address = its_address;
  access_flags = access;
  errno = (access & IBV_ACCESS_MW_BIND) != 0 ? EINVAL : EBADF;
  return errno == EBADF && descriptor >= 0 ? &by_dma_buf : nullptr;
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
    accepts_addresses = true;
  }
  IbRegistration OnHost() { return RegisterMemory(library_, nullptr, {.bytes = 4096}); }
  IbRegistration OnGpu() {
    return RegisterMemory(
        library_, nullptr,
        {.address = uint64_t{5} << 30, .bytes = 4096, .dma_buf = 7, .dma_buf_offset = 1 << 20});
  }

  IbLibrary library_;
};

TEST_F(IbRegistrationTest, HostMemoryIsPinned) {
  EXPECT_EQ(OnHost().region, &by_address);
  EXPECT_EQ(OnHost().means, RegistrationMeans::kPinned);
  EXPECT_NE(access_flags & IBV_ACCESS_MW_BIND, 0);
  EXPECT_EQ(access_flags & IBV_ACCESS_REMOTE_WRITE, 0);
  accepts_addresses = false;
  EXPECT_EQ(OnHost().region, nullptr);
  EXPECT_EQ(OnHost().error, EFAULT);
}

TEST_F(IbRegistrationTest, GpuMemoryIsRegisteredByItsDmaBuf) {
  EXPECT_EQ(OnGpu().region, &by_dma_buf);
  EXPECT_EQ(OnGpu().means, RegistrationMeans::kDmaBuf);
  EXPECT_EQ(offset, 1u << 20);
  EXPECT_EQ(address, uint64_t{5} << 30);
  EXPECT_NE(access_flags & IBV_ACCESS_REMOTE_WRITE, 0);
}

// The address is the tenant's: in this process something else is there.
TEST_F(IbRegistrationTest, GpuMemoryIsNeverRegisteredByItsAddress) {
  for (const auto call : {RejectDmaBuf, decltype(&RejectDmaBuf){nullptr}}) {
    library_.reg_dmabuf_mr = call;
    EXPECT_EQ(OnGpu().region, nullptr);
    EXPECT_EQ(OnGpu().error, EOPNOTSUPP);
  }
}

TEST_F(IbRegistrationTest, TheReasonForNoDmaBufsNamesTheRemedy) {
  EXPECT_EQ(WhyNoDmaBufs(library_, nullptr), "");
  library_.reg_dmabuf_mr = RejectDmaBuf;
  EXPECT_THAT(WhyNoDmaBufs(library_, nullptr),
              Mentions("Operation not supported", "mlx5", "Linux 5.12"));
  library_.reg_dmabuf_mr = nullptr;
  EXPECT_THAT(WhyNoDmaBufs(library_, nullptr), Mentions("ibv_reg_dmabuf_mr", "rdma-core 34"));
}

}  // namespace ib_registration_test
}  // namespace mccs
