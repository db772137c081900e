// A byte stream whose other end is a fuzz target: the bytes that the code under test reads, those
// that it has written, and when the stream accepts no more or breaks.
//
// THREAD: one.
#ifndef MCCS_TESTS_FUZZ_TARGETS_INPUT_STREAM_H_
#define MCCS_TESTS_FUZZ_TARGETS_INPUT_STREAM_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "service/transport/network.h"

namespace mccs {

struct InputStream {
  std::string to_read;
  size_t read = 0;          // bytes of to_read
  std::string written;      // the first bytes, up to kKeptBytes
  size_t room = 64u << 10;  // bytes that may still be written
  bool broken = false;      // after to_read

  static constexpr size_t kKeptBytes = 256;

  template <typename Message>
  void Append(const Message& message, size_t bytes = sizeof(Message)) {
    to_read.append(reinterpret_cast<const char*>(&message), bytes);
  }
};

class InputConnection final : public Connection {
 public:
  explicit InputConnection(std::shared_ptr<InputStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    if (stream_->broken) return absl::UnavailableError("closed by the peer");
    size_t total = 0;
    for (const iovec& piece : pieces) {
      const size_t take = std::min(piece.iov_len, stream_->room);
      const size_t keep =
          std::min(take, InputStream::kKeptBytes -
                             std::min(stream_->written.size(), InputStream::kKeptBytes));
      stream_->written.append(static_cast<const char*>(piece.iov_base), keep);
      stream_->room -= take;
      total += take;
    }
    return total;
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    if (left() == 0 && stream_->broken) return absl::UnavailableError("closed by the peer");
    size_t total = 0;
    for (const iovec& piece : pieces) {
      const size_t take = std::min(piece.iov_len, left());
      if (take == 0) continue;
      std::memcpy(piece.iov_base, stream_->to_read.data() + stream_->read, take);
      stream_->read += take;
      total += take;
    }
    return total;
  }
  bool readable() const override { return left() > 0 || stream_->broken; }
  bool writable() const override { return stream_->room > 0 || stream_->broken; }
  void SetWaker(Waker* /*waker*/) override {}
  Endpoint local() const override { return {"10.0.0.1", 1}; }
  Endpoint remote() const override { return {"10.0.0.2", 2}; }

 private:
  size_t left() const { return stream_->to_read.size() - stream_->read; }

  const std::shared_ptr<InputStream> stream_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_TARGETS_INPUT_STREAM_H_
