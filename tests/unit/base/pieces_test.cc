#include "base/pieces.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace mccs {
namespace pieces_test {

using Shared = std::shared_ptr<int>;
constexpr size_t kPerPiece = Pieces<Shared>::kPerPiece;

TEST(Pieces, KeepElementsInOrder) {
  Pieces<size_t> pieces;
  for (size_t i = 0; i < 3 * kPerPiece + 1; ++i) pieces.PushBack(i);
  ASSERT_EQ(pieces.size(), 3 * kPerPiece + 1);
  for (size_t i = 0; i < pieces.size(); ++i) ASSERT_EQ(pieces[i], i);
}

TEST(Pieces, ElementsOfTheExpectedSizeKeepTheirAddresses) {
  constexpr size_t kSize = 2 * kPerPiece + 10;
  Pieces<int> pieces(kSize);
  std::vector<const int*> addresses;
  for (size_t i = 0; i < kSize; ++i) {
    pieces.PushBack(1);
    addresses.push_back(&pieces[i]);
  }
  for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(&pieces[i], addresses[i]);
}

TEST(Pieces, AFreedPieceDestroysItsElementsOnly) {
  const auto element = std::make_shared<int>();
  Pieces<Shared> pieces;
  for (size_t i = 0; i < 2 * kPerPiece; ++i) pieces.PushBack(element);
  pieces.FreePiece(pieces.PieceOf(kPerPiece - 1));
  EXPECT_EQ(element.use_count(), static_cast<long>(kPerPiece) + 1);
  EXPECT_EQ(pieces[kPerPiece], element);
  EXPECT_EQ(pieces.SizeOfPiece(1), kPerPiece);
}

TEST(Pieces, PopsPiecesFromTheEnd) {
  const auto element = std::make_shared<int>();
  Pieces<Shared> pieces;
  for (size_t i = 0; i < kPerPiece + 3; ++i) pieces.PushBack(element);
  EXPECT_TRUE(pieces.PopPiece());
  EXPECT_EQ(pieces.size(), kPerPiece);
  EXPECT_EQ(element.use_count(), static_cast<long>(kPerPiece) + 1);
  EXPECT_TRUE(pieces.PopPiece());
  EXPECT_FALSE(pieces.PopPiece());
  EXPECT_EQ(element.use_count(), 1);
}

TEST(Pieces, PopsElementsFromTheEnd) {
  Pieces<size_t> pieces;
  for (size_t i = 0; i < kPerPiece + 2; ++i) pieces.PushBack(i);
  for (size_t i = kPerPiece + 2; i > 0; --i) {
    ASSERT_EQ(pieces.back(), i - 1);
    pieces.PopBack();
  }
  EXPECT_EQ(pieces.size(), 0u);
  pieces.PushBack(7);
  EXPECT_EQ(pieces[0], 7u);
}

}  // namespace pieces_test
}  // namespace mccs
