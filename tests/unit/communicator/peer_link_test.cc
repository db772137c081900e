#include "service/communicator/links/peer_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/communicator/fake_connection.h"

namespace mccs {
namespace peer_link_test {

peer::Message Failed(const std::string& text) {
  peer::Message message;
  message.mutable_failed()->set_message(text);
  return message;
}

class PeerLinkTest : public testing::Test {
 protected:
  std::string ReceiveText() {
    auto message = link_.Receive();
    if (!message.ok()) return "error: " + std::string(message.status().message());
    return message->has_value() ? (*message)->failed().message() : "nothing";
  }

  std::shared_ptr<FakeWire> wire_ = std::make_shared<FakeWire>();
  PeerLink link_{std::make_unique<FakeConnection>(wire_)};
};

TEST_F(PeerLinkTest, DeliversSentMessages) {
  link_.Send(Failed("one"));
  link_.Send(Failed("two"));
  EXPECT_TRUE(link_.flushed());
  wire_->to_read = wire_->written;
  EXPECT_EQ(ReceiveText(), "one");
  EXPECT_EQ(ReceiveText(), "two");
  EXPECT_EQ(ReceiveText(), "nothing");
}

TEST_F(PeerLinkTest, AcceptsBytesOneByOne) {
  wire_->Deliver(Failed("slowly"));
  wire_->read_at_once = 1;
  std::string received;
  for (int i = 0; i < 100 && (received = ReceiveText()) == "nothing"; ++i) {
  }
  EXPECT_EQ(received, "slowly");
}

TEST_F(PeerLinkTest, ResumesAfterFullStream) {
  wire_->room = 3;
  link_.Send(Failed("timeout"));
  EXPECT_FALSE(link_.flushed());
  EXPECT_FALSE(link_.Poll());
  wire_->room = 1000;
  EXPECT_TRUE(link_.Poll());
  EXPECT_TRUE(link_.flushed());
  wire_->to_read = wire_->written;
  EXPECT_EQ(ReceiveText(), "timeout");
}

TEST_F(PeerLinkTest, ReadsALongMessageInParts) {
  wire_->Deliver(Failed(std::string(4 * kPeerBytesPerCall, 'x')));
  const size_t all = wire_->to_read.size();
  int calls = 0;
  for (size_t before = all; ReceiveText() == "nothing"; before = wire_->to_read.size()) {
    EXPECT_LE(before - wire_->to_read.size(), kPeerBytesPerCall + (32 << 10));
    ASSERT_TRUE(link_.has_work());
    ++calls;
  }
  EXPECT_GE(calls, 3);
  EXPECT_EQ(link_.moved_bytes(), all);
  EXPECT_FALSE(link_.has_work());
}

TEST_F(PeerLinkTest, WritesALongMessageInParts) {
  link_.Send(Failed(std::string(4 * kPeerBytesPerCall, 'x')));
  EXPECT_EQ(wire_->written.size(), kPeerBytesPerCall);
  while (link_.has_work()) link_.Poll();
  wire_->to_read = wire_->written;
  std::string received;
  while ((received = ReceiveText()) == "nothing") {
  }
  EXPECT_EQ(received, std::string(4 * kPeerBytesPerCall, 'x'));
}

// One message to many peers is stored once.
TEST_F(PeerLinkTest, SharesAFrame) {
  const PeerFrame frame = MakeFrame(Failed("to all"));
  wire_->room = 3;
  link_.Queue(frame);
  EXPECT_TRUE(wire_->written.empty());
  EXPECT_EQ(frame.use_count(), 2);
  link_.Poll();
  wire_->room = 1000;
  link_.Send(Failed("to one"));
  EXPECT_EQ(frame.use_count(), 1);
  wire_->to_read = wire_->written;
  EXPECT_EQ(ReceiveText(), "to all");
  EXPECT_EQ(ReceiveText(), "to one");
}

TEST_F(PeerLinkTest, RejectsTooLongMessageBeforeBuffering) {
  const uint32_t length = htonl(kMaxPeerMessageBytes + 1);
  wire_->to_read.assign(reinterpret_cast<const char*>(&length), sizeof(length));
  EXPECT_THAT(ReceiveText(), testing::HasSubstr("announces a message of"));
  wire_->Deliver(Failed("more"));
  EXPECT_THAT(ReceiveText(), testing::HasSubstr("error"));
}

TEST_F(PeerLinkTest, RejectsGarbagePermanently) {
  const uint32_t length = htonl(4);
  wire_->to_read.assign(reinterpret_cast<const char*>(&length), sizeof(length));
  wire_->to_read += "\xff\xff\xff\xff";
  EXPECT_THAT(ReceiveText(), testing::HasSubstr("cannot be parsed"));
  EXPECT_FALSE(link_.status().ok());
}

TEST_F(PeerLinkTest, DeliversMessagesBeforeBreak) {
  wire_->Deliver(Failed("goodbye"));
  wire_->read_broken = true;
  EXPECT_EQ(ReceiveText(), "goodbye");
  EXPECT_THAT(ReceiveText(), testing::HasSubstr("closed by the peer"));
}

TEST_F(PeerLinkTest, DeliversMessagesAfterFailedWrite) {
  wire_->Deliver(Failed("goodbye"));
  wire_->read_broken = true;
  wire_->write_broken = true;
  link_.Send(Failed("are you there?"));
  EXPECT_FALSE(link_.status().ok());
  EXPECT_EQ(ReceiveText(), "goodbye");
  EXPECT_THAT(ReceiveText(), testing::HasSubstr("error"));
}

TEST_F(PeerLinkTest, FailsWhenPeerDoesNotRead) {
  wire_->room = 0;
  const peer::Message message = Failed(std::string(1 << 20, 'x'));
  for (int i = 0; i < 40; ++i) link_.Send(message);
  EXPECT_TRUE(absl::IsResourceExhausted(link_.status()));
}

TEST(StatusFromPeer, IsNeverOk) {
  for (uint32_t code : {0u, 17u, 1000u, ~0u}) {
    EXPECT_EQ(StatusFromPeer(code, "text").code(), absl::StatusCode::kInternal) << code;
  }
  EXPECT_TRUE(absl::IsUnavailable(StatusFromPeer(14, "text")));
}

TEST(StatusFromPeer, IsOneLineOfBoundedLength) {
  EXPECT_EQ(StatusFromPeer(14, "a\nb\x1b[0m").message(), "a b [0m");
  EXPECT_LE(StatusFromPeer(14, std::string(1 << 20, 'x')).message().size(), 4096u);
  // It is forwarded to other peers and to the controller, as UTF-8.
  std::string arrows = "x";
  while (arrows.size() < 4096) arrows += "\u2192";
  EXPECT_THAT(std::string(StatusFromPeer(14, arrows).message()), testing::EndsWith("\u2192"));
}

}  // namespace peer_link_test
}  // namespace mccs
