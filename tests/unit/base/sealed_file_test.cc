#include "base/sealed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/shared_region.h"

namespace mccs {
namespace sealed_file_test {

using ::testing::HasSubstr;

constexpr std::string_view kText = "the same for all";

absl::StatusOr<UniqueFd> Make(std::string_view text = kText) {
  return MakeSealedFile("test", std::as_bytes(std::span(text)));
}

TEST(SealedFile, HasTheGivenContents) {
  const absl::StatusOr<UniqueFd> file = Make();
  ASSERT_TRUE(file.ok()) << file.status();
  const auto contents = SealedContents::Map(file->get(), kText.size());
  ASSERT_TRUE(contents.ok()) << contents.status();
  const std::string_view mapped(reinterpret_cast<const char*>(contents->data()), contents->bytes());
  EXPECT_EQ(mapped, kText);
}

TEST(SealedFile, ItsContentsOutliveTheDescriptor) {
  absl::StatusOr<UniqueFd> file = Make(std::string(1 << 20, 'x'));
  ASSERT_TRUE(file.ok());
  const auto contents = SealedContents::Map(file->get(), 1 << 20);
  ASSERT_TRUE(contents.ok());
  file->Reset();
  EXPECT_EQ(contents->data()[(1 << 20) - 1], std::byte{'x'});
}

TEST(SealedFile, CannotBeChanged) {
  const absl::StatusOr<UniqueFd> file = Make();
  ASSERT_TRUE(file.ok());
  EXPECT_LT(pwrite(file->get(), "T", 1, 0), 0);
  EXPECT_NE(ftruncate(file->get(), 1), 0);
  EXPECT_NE(ftruncate(file->get(), 1 << 20), 0);
  EXPECT_EQ(mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0), MAP_FAILED);
}

TEST(SealedFile, MapRejectsAFileThatIsNotSealed) {
  const absl::StatusOr<SharedRegion> region = SharedRegion::Create("test", 16);
  ASSERT_TRUE(region.ok());
  const auto contents = SealedContents::Map(region->fd(), region->bytes());
  EXPECT_THAT(std::string(contents.status().message()), HasSubstr("not sealed"));
}

TEST(SealedFile, MapRejectsAnotherSizeAndNoFile) {
  const absl::StatusOr<UniqueFd> file = Make();
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(SealedContents::Map(file->get(), kText.size() + 1).ok());
  EXPECT_FALSE(SealedContents::Map(file->get(), 0).ok());
  EXPECT_FALSE(SealedContents::Map(-1, kText.size()).ok());
}

}  // namespace sealed_file_test
}  // namespace mccs
