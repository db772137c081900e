// Bytes, first in, first out. Memory follows the amount: a queue that has become empty, and held
// little, gives it back.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_BYTE_QUEUE_H_
#define MCCS_SERVICE_TRANSPORT_TLS_BYTE_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace mccs {

class ByteQueue {
 public:
  bool empty() const { return begin_ == end_; }
  std::span<const std::byte> bytes() const { return {memory_.data() + begin_, end_ - begin_}; }

  // Room for `count` bytes behind the last one, until another call.
  std::span<std::byte> Room(size_t count) {
    if (memory_.size() - end_ < count) {
      if (!empty()) std::memmove(memory_.data(), memory_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      if (memory_.size() - end_ < count) memory_.resize(end_ + count);
    }
    return {memory_.data() + end_, count};
  }
  // The first `count` bytes of the room are in the queue.
  void Commit(size_t count) {
    end_ += count;
    most_ = std::max(most_, end_ - begin_);
  }
  // REQUIRES: there are so many.
  void Drop(size_t count) {
    begin_ += count;
    if (!empty()) return;
    begin_ = end_ = 0;
    if (most_ < memory_.size() / 4) memory_ = {};
    most_ = 0;
  }

 private:
  std::vector<std::byte> memory_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t most_ = 0;  // bytes at a time since it was empty
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_BYTE_QUEUE_H_
