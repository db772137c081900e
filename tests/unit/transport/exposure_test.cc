#include "service/transport/exposure.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace exposure_test {

constexpr uint64_t kBytes = 4096;

class ExposedMemoryTest : public ::testing::Test {
 protected:
  void Expose(uint64_t key, uint64_t name) {
    ASSERT_TRUE(exposed_.Expose(RemoteKey(key), ExposureName(name), WholeOf(memory_)).ok());
  }
  // The keys of the changes so far, withdrawals as negative numbers.
  std::vector<int64_t> TakeChanges() {
    std::vector<int64_t> keys;
    while (const std::optional<ExposedMemory::Change> change = exposed_.TakeChange()) {
      const auto key = static_cast<int64_t>(change->key.value());
      keys.push_back(change->withdrawn ? -key : key);
    }
    return keys;
  }

  const OwnedMemory memory_{std::vector<std::byte>(kBytes)};
  ExposedMemory exposed_;
};

TEST_F(ExposedMemoryTest, ChangesReachThePeerInOrder) {
  Expose(1, 10);
  Expose(2, 20);
  EXPECT_EQ(TakeChanges(), (std::vector<int64_t>{1, 2}));
  exposed_.Withdraw(RemoteKey(1));
  Expose(3, 10);
  EXPECT_EQ(TakeChanges(), (std::vector<int64_t>{-1, 3}));
  EXPECT_FALSE(exposed_.has_changes());
}

TEST_F(ExposedMemoryTest, ThePeerDoesNotLearnOfMemoryThatIsWithdrawnBefore) {
  Expose(1, 10);
  Expose(2, 20);
  exposed_.Withdraw(RemoteKey(1));
  EXPECT_EQ(TakeChanges(), (std::vector<int64_t>{2}));
}

// A peer that reads nothing costs no memory.
TEST_F(ExposedMemoryTest, ChangesForASlowPeerAreBounded) {
  for (uint64_t key = 1; key <= kMaxExposures; ++key) Expose(key, key);
  EXPECT_EQ(TakeChanges().size(), kMaxExposures);
  for (uint64_t key = 1; key < 20 * kMaxExposures; ++key) {
    exposed_.Withdraw(RemoteKey(key));
    Expose(key + kMaxExposures, key);
  }
  EXPECT_LE(TakeChanges().size(), 2 * kMaxExposures);
}

TEST_F(ExposedMemoryTest, ANewConnectionLearnsAllThatIsExposed) {
  Expose(1, 10);
  Expose(2, 20);
  EXPECT_EQ(TakeChanges().size(), 2u);
  Expose(3, 30);
  exposed_.Withdraw(RemoteKey(1));
  exposed_.RepeatAll();
  EXPECT_EQ(TakeChanges(), (std::vector<int64_t>{2, 3}));
}

TEST_F(ExposedMemoryTest, FindsOnlyWhatIsExposed) {
  ASSERT_TRUE(
      exposed_.Expose(RemoteKey(1), ExposureName(1), WholeOf(memory_).Part(1000, 100)).ok());
  const auto found = exposed_.Find({RemoteKey(1), 40}, 60);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->address(), memory_.address() + 1040);
  EXPECT_EQ(found->bytes, 60u);
  EXPECT_TRUE(absl::IsOutOfRange(exposed_.Find({RemoteKey(1), 40}, 61).status()));
  EXPECT_TRUE(absl::IsOutOfRange(exposed_.Find({RemoteKey(1), ~uint64_t{0}}, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(exposed_.Find({RemoteKey(2), 0}, 1).status()));
  exposed_.Withdraw(RemoteKey(1));
  EXPECT_TRUE(absl::IsNotFound(exposed_.Find({RemoteKey(1), 0}, 1).status()));
}

}  // namespace exposure_test
}  // namespace mccs
