// Streams within one daemon.
#include "service/transport/memory_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace mccs {
namespace memory_connection_test {

class CountingWaker final : public Waker {
 public:
  void Wake() override { ++wakes_; }
  int Take() { return std::exchange(wakes_, 0); }

 private:
  int wakes_ = 0;
};

class MemoryConnectionTest : public testing::Test {
 protected:
  MemoryConnectionTest() {
    std::tie(a_, b_) = ConnectInMemory({"10.0.0.1", 7400});
    a_->SetWaker(&waker_of_a_);
    b_->SetWaker(&waker_of_b_);
    waker_of_a_.Take();
    waker_of_b_.Take();
  }
  static size_t Write(Connection& end, std::string bytes) {
    const iovec piece{bytes.data(), bytes.size()};
    return end.Write({&piece, 1}).value();
  }
  static std::string Read(Connection& end, size_t first, size_t second = 0) {
    std::string one(first, '-'), two(second, '-');
    const iovec pieces[] = {{one.data(), first}, {two.data(), second}};
    const size_t read = end.Read(pieces).value();
    return (one + two).substr(0, read);
  }

  CountingWaker waker_of_a_, waker_of_b_;
  std::unique_ptr<Connection> a_, b_;
};

TEST_F(MemoryConnectionTest, CarriesBytesInBothDirections) {
  EXPECT_FALSE(b_->readable());
  EXPECT_EQ(Write(*a_, "question"), 8u);
  EXPECT_EQ(waker_of_b_.Take(), 1);
  EXPECT_EQ(waker_of_a_.Take(), 0);
  EXPECT_TRUE(b_->readable());
  EXPECT_EQ(Read(*b_, 3, 2), "quest");
  EXPECT_EQ(Read(*b_, 100), "ion");
  EXPECT_EQ(Read(*b_, 100), "");
  EXPECT_FALSE(b_->readable());
  EXPECT_EQ(Write(*b_, "answer"), 6u);
  EXPECT_EQ(waker_of_a_.Take(), 1);
  EXPECT_EQ(Read(*a_, 100), "answer");
  EXPECT_EQ(a_->remote(), (Endpoint{"10.0.0.1", 7400}));
}

TEST_F(MemoryConnectionTest, AFullStreamBlocksItsWriterUntilSomethingIsRead) {
  EXPECT_EQ(Write(*a_, std::string(kMemoryConnectionBytes + 1, 'x')), kMemoryConnectionBytes);
  EXPECT_FALSE(a_->writable());
  EXPECT_EQ(Write(*a_, "x"), 0u);
  EXPECT_TRUE(b_->writable()) << "the other direction is free";
  EXPECT_EQ(waker_of_a_.Take(), 0);
  EXPECT_EQ(Read(*b_, 10), std::string(10, 'x'));
  EXPECT_EQ(waker_of_a_.Take(), 1);
  EXPECT_EQ(Write(*a_, std::string(11, 'y')), 10u);
}

TEST_F(MemoryConnectionTest, WhatWasSentBeforeTheEndIsRead) {
  Write(*a_, "the rest");
  waker_of_b_.Take();
  a_.reset();
  EXPECT_EQ(waker_of_b_.Take(), 1);
  EXPECT_EQ(Read(*b_, 100), "the rest");
  EXPECT_TRUE(b_->readable()) << "the end";
  char byte;
  const iovec piece{&byte, 1};
  EXPECT_THAT(b_->Read({&piece, 1}).status().ToString(), testing::HasSubstr("10.0.0.1:7400"));
  EXPECT_TRUE(b_->writable());
  EXPECT_TRUE(absl::IsUnavailable(b_->Write({&piece, 1}).status()));
}

TEST_F(MemoryConnectionTest, AWakerIsNotCalledAfterItsEndIsGone) {
  b_.reset();
  waker_of_b_.Take();
  a_.reset();
  EXPECT_EQ(waker_of_b_.Take(), 0);
}

}  // namespace memory_connection_test
}  // namespace mccs
