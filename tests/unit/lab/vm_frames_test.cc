#include "lab/vm_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace mccs::lab {
namespace vm_frames_test {

using testing::ElementsAre;
using testing::IsEmpty;

const VmRequest kRequest{.key = "k",
                         .directory = "/a b",
                         .file = "/bin/sh",
                         .argv = {"sh", "", "x\ny"},
                         .environment = {"A=1", "B="}};

TEST(VmRequest, ArrivesAsItWasSent) {
  const std::optional<VmRequest> request = DecodeRequest(EncodeRequest(kRequest));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->key, "k");
  EXPECT_EQ(request->directory, "/a b");
  EXPECT_EQ(request->file, "/bin/sh");
  EXPECT_THAT(request->argv, ElementsAre("sh", "", "x\ny"));
  EXPECT_THAT(request->environment, ElementsAre("A=1", "B="));
}

TEST(VmRequest, MayHaveNoArgumentsAndNoEnvironment) {
  const std::optional<VmRequest> request = DecodeRequest(EncodeRequest({}));
  ASSERT_TRUE(request);
  EXPECT_THAT(request->argv, IsEmpty());
  EXPECT_THAT(request->environment, IsEmpty());
}

TEST(VmRequest, IsRejectedIfItIsIncomplete) {
  const std::string payload = EncodeRequest(kRequest);
  EXPECT_FALSE(DecodeRequest(""));
  EXPECT_FALSE(DecodeRequest(payload.substr(0, payload.size() - 1)));
  EXPECT_FALSE(DecodeRequest(std::string("k\0/\0/f\0", 7)));
  EXPECT_FALSE(DecodeRequest(std::string("k\0/\0/f\0x\0", 9)));
  // Three arguments are announced, two follow.
  EXPECT_FALSE(DecodeRequest(std::string("k\0/\0/f\0003\0a\0b\0", 13)));
}

class VmFrames : public testing::Test {
 protected:
  VmFrames() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    a_.Reset(ends[0]);
    b_.Reset(ends[1]);
  }

  // Sends these bytes and ends the connection. Returns the frame that b receives.
  std::optional<Frame> ReceiveFrom(const std::string& bytes) {
    EXPECT_EQ(send(a_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    a_.Reset();
    return ReceiveFrame(b_.get());
  }

  UniqueFd a_, b_;
};

TEST_F(VmFrames, ArriveInOrder) {
  ASSERT_TRUE(SendFrame(a_.get(), Frame::Type::kOutput, std::string("x\0y", 3)));
  ASSERT_TRUE(SendFrame(a_.get(), Frame::Type::kSignal, 15));
  ASSERT_TRUE(SendFrame(a_.get(), Frame::Type::kInput, ""));
  std::optional<Frame> frame = ReceiveFrame(b_.get());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->type, Frame::Type::kOutput);
  EXPECT_EQ(frame->payload, std::string("x\0y", 3));
  frame = ReceiveFrame(b_.get());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->Number(), 15);
  frame = ReceiveFrame(b_.get());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->payload, "");
  EXPECT_EQ(frame->Number(), std::nullopt);
}

TEST_F(VmFrames, EndWithTheConnection) {
  b_.Reset();
  EXPECT_FALSE(SendFrame(a_.get(), Frame::Type::kOutput, "x"));
  EXPECT_FALSE(ReceiveFrame(a_.get()));
}

TEST_F(VmFrames, RejectsAFrameThatEndsEarly) {
  EXPECT_FALSE(ReceiveFrom(std::string("\x06\x03\0\0\0ab", 7)));
}

TEST_F(VmFrames, RejectsATooLongFrame) {
  EXPECT_FALSE(ReceiveFrom(std::string("\x06\xff\xff\xff\xff", 5)));
}

}  // namespace vm_frames_test
}  // namespace mccs::lab
