// The map of memory for one process's kernels, against a process that answers as it likes.
#include "service/frontend/kernel_mappings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace mccs {
namespace kernel_mappings_test {

constexpr pid_t kProcess = 7;
constexpr uint64_t kAddress = 0x7f0000000000;

class Memory final : public Region {
 public:
  explicit Memory(pid_t owner) : Region(RegionKind::kTenant, nullptr, 4096) {
    SetKernelAccess({.handle = {}, .descriptor = -1, .owner = owner, .owner_address = kAddress});
  }
};

class KernelMappingsTest : public testing::Test {
 protected:
  // Messages to the process of one kind.
  template <typename Message>
  std::vector<Message> Sent() const {
    std::vector<Message> found;
    for (const std::vector<std::byte>& bytes : sent_) {
      Message message;
      if (bytes.size() != sizeof(message)) continue;
      std::memcpy(&message, bytes.data(), sizeof(message));
      if (message.header.kind == Message::kKind) found.push_back(message);
    }
    return found;
  }
  static wire::MemoryMapped Mapped(uint64_t number, uint64_t address = kAddress) {
    wire::MemoryMapped message{};
    message.memory = number;
    message.address = address;
    return message;
  }
  static wire::MemoryUnmapped Unmapped(uint64_t number) {
    wire::MemoryUnmapped message{};
    message.memory = number;
    return message;
  }

  std::vector<std::vector<std::byte>> sent_;
  KernelMappings mappings_{kProcess,
                           [this](std::span<const std::byte> message, std::span<const int>) {
                             sent_.emplace_back(message.begin(), message.end());
                           }};
  Memory other_{kProcess + 1};
};

TEST_F(KernelMappingsTest, TheProcessIsAskedOnce) {
  EXPECT_EQ(*mappings_.AddressOf(other_), 0u);
  EXPECT_EQ(*mappings_.AddressOf(other_), 0u);
  ASSERT_EQ(Sent<wire::MapMemory>().size(), 1u);
  const uint64_t number = Sent<wire::MapMemory>()[0].memory;
  ASSERT_TRUE(mappings_.OnMapped(Mapped(number, 0x1234)).ok());
  EXPECT_EQ(*mappings_.AddressOf(other_), 0x1234u);
}

TEST_F(KernelMappingsTest, ItsOwnMemoryNeedsNoMapping) {
  EXPECT_EQ(*mappings_.AddressOf(Memory(kProcess)), kAddress);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(KernelMappingsTest, AProcessThatCannotMapFailsTheMemory) {
  (void)mappings_.AddressOf(other_);
  wire::MemoryMapped refused = Mapped(Sent<wire::MapMemory>()[0].memory, 0);
  refused.status.error = wire::ErrorClass::kSystem;
  std::strncpy(refused.status.text, "no space", sizeof(refused.status.text) - 1);
  ASSERT_TRUE(mappings_.OnMapped(refused).ok());
  EXPECT_THAT(std::string(mappings_.AddressOf(other_).status().message()),
              testing::HasSubstr("no space"));
}

// A second answer could move an address that kernels use, and each answer costs a turn.
TEST_F(KernelMappingsTest, AnswersWithoutAQuestionAreRefused) {
  EXPECT_FALSE(mappings_.OnMapped(Mapped(1)).ok());
  (void)mappings_.AddressOf(other_);
  const uint64_t number = Sent<wire::MapMemory>()[0].memory;
  EXPECT_FALSE(mappings_.OnUnmapped(Unmapped(number)).ok()) << "it was not asked to unmap";
  ASSERT_TRUE(mappings_.OnMapped(Mapped(number)).ok());
  EXPECT_FALSE(mappings_.OnMapped(Mapped(number, 0x1234)).ok());
  EXPECT_EQ(*mappings_.AddressOf(other_), kAddress);
}

TEST_F(KernelMappingsTest, AFailedMappingIsAnsweredOnceToo) {
  (void)mappings_.AddressOf(other_);
  const uint64_t number = Sent<wire::MapMemory>()[0].memory;
  ASSERT_TRUE(mappings_.OnMapped(Mapped(number, 0)).ok());
  EXPECT_FALSE(mappings_.OnMapped(Mapped(number)).ok());
}

TEST_F(KernelMappingsTest, WithdrawnMemoryIsHeldUntilTheProcessHasUnmappedIt) {
  (void)mappings_.AddressOf(other_);
  const uint64_t number = Sent<wire::MapMemory>()[0].memory;
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> held = token;
  mappings_.Withdraw(other_, std::move(token));
  EXPECT_FALSE(held.expired());
  ASSERT_EQ(Sent<wire::UnmapMemory>().size(), 1u);
  EXPECT_EQ(Sent<wire::UnmapMemory>()[0].memory, number);
  ASSERT_TRUE(mappings_.OnMapped(Mapped(number)).ok()) << "the answers may cross";
  ASSERT_TRUE(mappings_.OnUnmapped(Unmapped(number)).ok());
  EXPECT_TRUE(held.expired());
  EXPECT_FALSE(mappings_.OnUnmapped(Unmapped(number)).ok());
}

TEST_F(KernelMappingsTest, AProcessThatEndsHoldsNothing) {
  (void)mappings_.AddressOf(other_);
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> held = token;
  mappings_.Withdraw(other_, std::move(token));
  mappings_.End();
  EXPECT_TRUE(held.expired());
  EXPECT_FALSE(mappings_.alive());
}

TEST_F(KernelMappingsTest, MemoryThatHasEndedIsUnmappedLater) {
  auto ended = std::make_unique<Memory>(kProcess + 1);
  (void)mappings_.AddressOf(*ended);
  ended.reset();
  mappings_.Sweep();
  EXPECT_EQ(Sent<wire::UnmapMemory>().size(), 1u);
}

}  // namespace kernel_mappings_test
}  // namespace mccs
