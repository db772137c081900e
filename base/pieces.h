// A sequence that allocates and frees its memory in pieces. No operation takes longer because the
// sequence is long: it never moves its elements to larger memory, and its owner frees it in parts.
#ifndef MCCS_BASE_PIECES_H_
#define MCCS_BASE_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace mccs {

// LIFETIME: an element keeps its address when its piece was allocated for the expected size;
// otherwise until the next PushBack.
template <typename T>
class Pieces {
 public:
  static constexpr size_t kPerPiece = 256;

  Pieces() = default;
  // `expected`: how many elements follow. More may.
  explicit Pieces(size_t expected) : expected_(expected) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return pieces_[i / kPerPiece][i % kPerPiece]; }
  const T& operator[](size_t i) const { return pieces_[i / kPerPiece][i % kPerPiece]; }

  void PushBack(T element) {
    if (size_ % kPerPiece == 0) {
      pieces_.emplace_back().reserve(std::min(kPerPiece, expected_ - std::min(expected_, size_)));
    }
    pieces_.back().push_back(std::move(element));
    ++size_;
  }

  // The piece of element `i`: its elements are from PieceOf(i) * kPerPiece on.
  static size_t PieceOf(size_t i) { return i / kPerPiece; }
  size_t SizeOfPiece(size_t piece) const { return pieces_[piece].size(); }
  // Destroys the elements of the piece, which must not be used any more. The others keep their
  // places.
  void FreePiece(size_t piece) { std::vector<T>().swap(pieces_[piece]); }
  // REQUIRES: not empty, and no piece is freed.
  T& back() { return pieces_.back().back(); }
  void PopBack() {
    pieces_.back().pop_back();
    if (pieces_.back().empty()) pieces_.pop_back();
    --size_;
  }
  // Removes the last piece with its elements. Returns false if there is none.
  bool PopPiece() {
    if (pieces_.empty()) return false;
    pieces_.pop_back();
    size_ = pieces_.size() * kPerPiece;
    return true;
  }

 private:
  std::vector<std::vector<T>> pieces_;
  size_t size_ = 0;
  size_t expected_ = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_PIECES_H_
