// The map of memory for one process's kernels, against a process that answers as it likes.
#include "service/frontend/gpu_mappings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/frontend/process_gpus.h"

namespace mccs {
namespace gpu_mappings_test {

constexpr pid_t kProcess = 7;
constexpr int32_t kDevice = 3;
constexpr uint64_t kAddress = 0x7f0000000000;

class Memory final : public Region {
 public:
  explicit Memory(pid_t owner, int32_t device = kDevice,
                  wire::ExportKind kind = wire::ExportKind::kCudaIpc)
      : Region(RegionKind::kTenant, nullptr, 4096) {
    SetKernelAccess({.kind = kind,
                     .handle = {},
                     .descriptor = -1,
                     .owner = owner,
                     .owner_address = kAddress,
                     .owner_device = device});
  }
};

class GpuMappingsTest : public testing::Test {
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
  GpuMappings mappings_{{.session = 1, .process = kProcess, .device = kDevice, .gpu = "gpu"},
                        {},
                        [this](std::span<const std::byte> message, std::span<const int>) {
                          sent_.emplace_back(message.begin(), message.end());
                        }};
  Memory other_{kProcess + 1};
};

TEST_F(GpuMappingsTest, TheProcessIsAskedOnce) {
  EXPECT_EQ(*mappings_.AddressOf(other_), 0u);
  EXPECT_EQ(*mappings_.AddressOf(other_), 0u);
  ASSERT_EQ(Sent<wire::MapMemory>().size(), 1u);
  const uint64_t number = Sent<wire::MapMemory>()[0].memory;
  ASSERT_TRUE(mappings_.OnMapped(Mapped(number, 0x1234)).ok());
  EXPECT_EQ(*mappings_.AddressOf(other_), 0x1234u);
}

TEST_F(GpuMappingsTest, ACopyIsCompleteWhenTheProcessSaysSo) {
  const uint64_t copy = mappings_.StartCopy(kAddress, 0x1000, 64);
  ASSERT_EQ(Sent<wire::CopyMemory>().size(), 1u);
  const wire::CopyMemory request = Sent<wire::CopyMemory>()[0];
  EXPECT_EQ(request.to, kAddress);
  EXPECT_EQ(request.from, 0x1000u);
  EXPECT_EQ(request.bytes, 64u);
  EXPECT_EQ(request.device, kDevice);
  EXPECT_FALSE(*mappings_.TakeCopied(copy));
  wire::MemoryCopied answer{};
  answer.copy = request.copy;
  ASSERT_TRUE(mappings_.OnCopied(answer).ok());
  EXPECT_FALSE(mappings_.OnCopied(answer).ok()) << "a second answer";
  EXPECT_TRUE(*mappings_.TakeCopied(copy));
  EXPECT_FALSE(mappings_.OnCopied(answer).ok()) << "an answer to no copy";
}

TEST_F(GpuMappingsTest, ACopyThatFailsOrWhoseProcessEndsIsAnError) {
  const uint64_t failed = mappings_.StartCopy(kAddress, 0x1000, 64);
  const uint64_t unfinished = mappings_.StartCopy(kAddress, 0x1000, 64);
  wire::MemoryCopied answer{};
  answer.copy = failed;
  answer.status.error = wire::ErrorClass::kSystem;
  std::strcpy(answer.status.text, "CUDA_ERROR_INVALID_VALUE");
  ASSERT_TRUE(mappings_.OnCopied(answer).ok());
  EXPECT_THAT(std::string(mappings_.TakeCopied(failed).status().message()),
              testing::HasSubstr("CUDA_ERROR_INVALID_VALUE"));
  EXPECT_FALSE(*mappings_.TakeCopied(unfinished));
  mappings_.End();
  EXPECT_FALSE(mappings_.TakeCopied(unfinished).ok());
}

TEST_F(GpuMappingsTest, AForgottenCopyMayStillBeAnswered) {
  const uint64_t late = mappings_.StartCopy(kAddress, 0x1000, 64);
  const uint64_t answered = mappings_.StartCopy(kAddress, 0x1000, 64);
  wire::MemoryCopied answer{};
  answer.copy = answered;
  ASSERT_TRUE(mappings_.OnCopied(answer).ok());
  for (const uint64_t copy : {late, answered}) mappings_.ForgetCopy(copy);
  ASSERT_EQ(Sent<wire::DropCopy>().size(), 1u);
  EXPECT_EQ(Sent<wire::DropCopy>()[0].copy, late);
  answer.copy = late;
  EXPECT_TRUE(mappings_.OnCopied(answer).ok());
  EXPECT_FALSE(mappings_.OnCopied(answer).ok()) << "a second answer";
}

TEST_F(GpuMappingsTest, CopiesThatAreForgottenCountUntilTheirAnswer) {
  std::vector<uint64_t> copies;
  while (const uint64_t copy = mappings_.StartCopy(kAddress, 0x1000, 64)) copies.push_back(copy);
  for (const uint64_t copy : copies) mappings_.ForgetCopy(copy);
  EXPECT_EQ(mappings_.StartCopy(kAddress, 0x1000, 64), 0u);
  wire::MemoryCopied answer{};
  answer.copy = copies[0];
  ASSERT_TRUE(mappings_.OnCopied(answer).ok());
  EXPECT_NE(mappings_.StartCopy(kAddress, 0x1000, 64), 0u);
  mappings_.End();
  mappings_.ForgetCopy(copies[1]);  // its process has ended
}

TEST_F(GpuMappingsTest, ItsOwnMemoryNeedsNoMapping) {
  EXPECT_EQ(*mappings_.AddressOf(Memory(kProcess)), kAddress);
  EXPECT_TRUE(sent_.empty());
}

// A GPU needs access to the memory of another one, also in one process.
TEST_F(GpuMappingsTest, TheProcessIsAskedForMemoryOfItsOtherGpus) {
  const Memory other_gpu(kProcess, kDevice + 1);
  EXPECT_EQ(*mappings_.AddressOf(other_gpu), 0u);
  ASSERT_EQ(Sent<wire::MapMemory>().size(), 1u);
  EXPECT_EQ(Sent<wire::MapMemory>()[0].device, kDevice);
  EXPECT_EQ(Sent<wire::MapMemory>()[0].own_address, kAddress);
  ASSERT_TRUE(mappings_.OnMapped(Mapped(Sent<wire::MapMemory>()[0].memory)).ok());
  EXPECT_EQ(*mappings_.AddressOf(other_gpu), kAddress);
}

TEST_F(GpuMappingsTest, ItsMemoryOfTheHostHasOneAddressOnAllGpus) {
  const Memory host(kProcess, kDevice + 1, wire::ExportKind::kHostMemory);
  EXPECT_EQ(*mappings_.AddressOf(host), kAddress);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(GpuMappingsTest, AProcessThatCannotMapFailsTheMemory) {
  (void)mappings_.AddressOf(other_);
  wire::MemoryMapped refused = Mapped(Sent<wire::MapMemory>()[0].memory, 0);
  refused.status.error = wire::ErrorClass::kSystem;
  std::strncpy(refused.status.text, "no space", sizeof(refused.status.text) - 1);
  ASSERT_TRUE(mappings_.OnMapped(refused).ok());
  EXPECT_THAT(std::string(mappings_.AddressOf(other_).status().message()),
              testing::HasSubstr("no space"));
}

// A second answer could move an address that kernels use, and each answer costs a turn.
TEST_F(GpuMappingsTest, AnswersWithoutAQuestionAreRefused) {
  EXPECT_FALSE(mappings_.OnMapped(Mapped(1)).ok());
  (void)mappings_.AddressOf(other_);
  const uint64_t number = Sent<wire::MapMemory>()[0].memory;
  EXPECT_FALSE(mappings_.OnUnmapped(Unmapped(number)).ok()) << "it was not asked to unmap";
  ASSERT_TRUE(mappings_.OnMapped(Mapped(number)).ok());
  EXPECT_FALSE(mappings_.OnMapped(Mapped(number, 0x1234)).ok());
  EXPECT_EQ(*mappings_.AddressOf(other_), kAddress);
}

TEST_F(GpuMappingsTest, AFailedMappingIsAnsweredOnceToo) {
  (void)mappings_.AddressOf(other_);
  const uint64_t number = Sent<wire::MapMemory>()[0].memory;
  ASSERT_TRUE(mappings_.OnMapped(Mapped(number, 0)).ok());
  EXPECT_FALSE(mappings_.OnMapped(Mapped(number)).ok());
}

TEST_F(GpuMappingsTest, WithdrawnMemoryIsHeldUntilTheProcessHasUnmappedIt) {
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

TEST_F(GpuMappingsTest, AProcessThatEndsHoldsNothing) {
  (void)mappings_.AddressOf(other_);
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> held = token;
  mappings_.Withdraw(other_, std::move(token));
  mappings_.End();
  EXPECT_TRUE(held.expired());
  EXPECT_FALSE(mappings_.alive());
}

// The numbers of memory tell which GPU an answer belongs to.
TEST_F(GpuMappingsTest, EachGpuOfAProcessHasItsOwnMappings) {
  ProcessGpus kernels(SessionId(1), kProcess,
                      [this](std::span<const std::byte> message, std::span<const int>) {
                        sent_.emplace_back(message.begin(), message.end());
                      });
  GpuMappings& one = **kernels.On("gpu a", 0);
  GpuMappings& two = **kernels.On("gpu b", 1);
  EXPECT_EQ(*kernels.On("gpu a", 0), &one);
  (void)one.AddressOf(other_);
  (void)two.AddressOf(other_);
  const auto sent = Sent<wire::MapMemory>();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].device, 0);
  EXPECT_EQ(sent[1].device, 1);
  ASSERT_TRUE(kernels.OnMapped(Mapped(sent[1].memory, 0x2000)).ok());
  ASSERT_TRUE(kernels.OnMapped(Mapped(sent[0].memory, 0x1000)).ok());
  EXPECT_EQ(*one.AddressOf(other_), 0x1000u);
  EXPECT_EQ(*two.AddressOf(other_), 0x2000u);
  EXPECT_FALSE(kernels.OnMapped(Mapped(0)).ok());
  EXPECT_FALSE(kernels.OnMapped(Mapped(3)).ok()) << "it has no third GPU";
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> held = token;
  kernels.Withdraw(other_, std::move(token));
  ASSERT_TRUE(kernels.OnUnmapped(Unmapped(sent[0].memory)).ok());
  EXPECT_FALSE(held.expired());
  ASSERT_TRUE(kernels.OnUnmapped(Unmapped(sent[1].memory)).ok());
  EXPECT_TRUE(held.expired());
}

TEST_F(GpuMappingsTest, AProcessHasAtMostSoManyGpus) {
  ProcessGpus kernels(SessionId(1), kProcess,
                      [](std::span<const std::byte>, std::span<const int>) {});
  for (size_t i = 0; i < ProcessGpus::kMaxGpus; ++i)
    ASSERT_TRUE(kernels.On(std::to_string(i), static_cast<int32_t>(i)).ok());
  EXPECT_EQ(kernels.On("one more", 0).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(GpuMappingsTest, MemoryThatHasEndedIsUnmappedLater) {
  auto ended = std::make_unique<Memory>(kProcess + 1);
  (void)mappings_.AddressOf(*ended);
  ended.reset();
  mappings_.Sweep();
  EXPECT_EQ(Sent<wire::UnmapMemory>().size(), 1u);
}

}  // namespace gpu_mappings_test
}  // namespace mccs
