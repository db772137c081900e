// A stream whose other end is the test: the bytes written, the bytes to read, and when it breaks.
#ifndef MCCS_TESTS_UNIT_COMMUNICATOR_FAKE_CONNECTION_H_
#define MCCS_TESTS_UNIT_COMMUNICATOR_FAKE_CONNECTION_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/peer.pb.h"
#include "service/transport/network.h"

namespace mccs {

struct FakeWire {
  std::string written;  // by the code under test
  std::string to_read;  // by the code under test
  size_t read_at_once = 1 << 20;
  size_t room = 1 << 30;  // bytes that may still be written
  bool write_broken = false;
  bool read_broken = false;  // after to_read
  Waker* waker = nullptr;    // of the code under test; a test that changes the above may call it

  // Queues a message from the peer for reading.
  void Deliver(const peer::Message& message) {
    const std::string body = message.SerializeAsString();
    const uint32_t length = htonl(static_cast<uint32_t>(body.size()));
    to_read.append(reinterpret_cast<const char*>(&length), sizeof(length));
    to_read += body;
  }
  // The messages in `written`.
  std::vector<peer::Message> Written() const {
    std::vector<peer::Message> messages;
    for (size_t at = 0; at < written.size();) {
      uint32_t length;
      std::memcpy(&length, written.data() + at, sizeof(length));
      at += sizeof(length);
      length = ntohl(length);
      EXPECT_TRUE(messages.emplace_back().ParseFromString(written.substr(at, length)));
      at += length;
    }
    return messages;
  }
};

class FakeConnection final : public Connection {
 public:
  explicit FakeConnection(std::shared_ptr<FakeWire> wire) : wire_(std::move(wire)) {}
  ~FakeConnection() override { wire_->waker = nullptr; }
  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    if (wire_->write_broken) return absl::UnavailableError("broken pipe");
    size_t total = 0;
    for (const iovec& piece : pieces) {
      const size_t take = std::min(piece.iov_len, wire_->room);
      wire_->written.append(static_cast<const char*>(piece.iov_base), take);
      wire_->room -= take;
      total += take;
    }
    return total;
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    if (wire_->to_read.empty() && wire_->read_broken)
      return absl::UnavailableError("closed by the peer");
    const size_t take = std::min({pieces[0].iov_len, wire_->to_read.size(), wire_->read_at_once});
    std::memcpy(pieces[0].iov_base, wire_->to_read.data(), take);
    wire_->to_read.erase(0, take);
    return take;
  }
  bool readable() const override { return !wire_->to_read.empty() || wire_->read_broken; }
  bool writable() const override { return wire_->room > 0 || wire_->write_broken; }
  void SetWaker(Waker* waker) override { wire_->waker = waker; }
  Endpoint local() const override { return {"10.0.0.1", 1}; }
  Endpoint remote() const override { return {"10.0.0.2", 2}; }

 private:
  const std::shared_ptr<FakeWire> wire_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_COMMUNICATOR_FAKE_CONNECTION_H_
