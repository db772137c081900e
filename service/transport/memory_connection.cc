#include "service/transport/memory_connection.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

struct MemoryStream {
  struct End {
    std::string received;  // written by the other end
    bool closed = false;
    Waker* waker = nullptr;

    void Wake() const {
      if (waker != nullptr) waker->Wake();
    }
  };
  Endpoint at;
  End ends[2];
};

class MemoryConnection final : public Connection {
 public:
  MemoryConnection(std::shared_ptr<MemoryStream> stream, int end)
      : stream_(std::move(stream)), own_(stream_->ends[end]), other_(stream_->ends[1 - end]) {}
  ~MemoryConnection() override {
    own_.closed = true;
    own_.waker = nullptr;
    other_.Wake();
  }

  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    if (other_.closed) return Closed();
    size_t written = 0;
    for (const iovec& piece : pieces) {
      const size_t bytes = std::min(piece.iov_len, kMemoryConnectionBytes - other_.received.size());
      other_.received.append(static_cast<const char*>(piece.iov_base), bytes);
      written += bytes;
    }
    if (written > 0) other_.Wake();
    return written;
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    if (own_.received.empty() && other_.closed) return Closed();
    const bool was_full = own_.received.size() == kMemoryConnectionBytes;
    size_t read = 0;
    for (const iovec& piece : pieces) {
      read += own_.received.copy(static_cast<char*>(piece.iov_base), piece.iov_len, read);
    }
    own_.received.erase(0, read);
    if (was_full && read > 0) other_.Wake();
    return read;
  }

  bool readable() const override { return !own_.received.empty() || other_.closed; }
  bool writable() const override {
    return other_.closed || other_.received.size() < kMemoryConnectionBytes;
  }
  void SetWaker(Waker* waker) override {
    own_.waker = waker;
    if (readable() || writable()) own_.Wake();
  }

  Endpoint local() const override { return stream_->at; }
  Endpoint remote() const override { return stream_->at; }

 private:
  absl::Status Closed() const {
    return absl::UnavailableError(
        absl::StrCat("stream within the daemon at ", ToString(stream_->at), ": closed"));
  }

  const std::shared_ptr<MemoryStream> stream_;
  MemoryStream::End& own_;
  MemoryStream::End& other_;
};

}  // namespace

std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> ConnectInMemory(
    const Endpoint& at) {
  auto stream = std::make_shared<MemoryStream>();
  stream->at = at;
  return {std::make_unique<MemoryConnection>(stream, 0),
          std::make_unique<MemoryConnection>(stream, 1)};
}

}  // namespace mccs
