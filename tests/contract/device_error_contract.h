// The contract of devices whose operations can fail, as tests.
#ifndef MCCS_TESTS_CONTRACT_DEVICE_ERROR_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_DEVICE_ERROR_CONTRACT_H_

#include <gtest/gtest.h>

#include <memory>

#include "tests/contract/device_contract.h"

namespace mccs {

class DeviceErrorContract : public DeviceContract {
 protected:
  // Copies `from` to a new allocation.
  void Copy(const Region& from, MemToken token) {
    sources_[token] = {.address = from.address()};
    copies_[token] = Allocate(from.bytes());
    destinations_[token] = copies_[token]->address();
    Submit({.sources = {&sources_[token], 1},
            .destinations = {&destinations_[token], 1},
            .elements = kSmallFloats,
            .type = DataType::kFloat32},
           token);
  }

  std::map<MemToken, MemSource> sources_;
  std::map<MemToken, std::byte*> destinations_;
  std::map<MemToken, std::unique_ptr<Region>> copies_;
};

TEST_P(DeviceErrorContract, FailedOperationIsReturnedOnceWithItsError) {
  const absl::Status error = absl::InternalError("ECC error at address 0x1000");
  const auto from = Numbers(kSmallFloats, 1);
  world_->FailNext(error);
  for (MemToken token : {1, 2, 3}) Copy(*from, token);
  PollUntil(3);
  for (int i = 0; i < 100; ++i) PollOnce();
  EXPECT_EQ(returned_, (std::map<MemToken, int>{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(errors_, (std::map<MemToken, absl::Status>{{1, error}}));
  for (MemToken token : {2, 3}) {
    EXPECT_EQ(ReadFloats(*copies_[token], kSmallFloats), ReadFloats(*from, kSmallFloats));
  }
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_DEVICE_ERROR_CONTRACT_H_
