#include "tests/sim/sim_network.h"

#include <gtest/gtest.h>

#include <string>

namespace mccs {
namespace sim_network_test {

class SimNetworkTest : public testing::Test {
 protected:
  explicit SimNetworkTest(uint64_t seed = 1) : network_(clock_, seed, {.buffer_bytes = 1000}) {}

  void Connect() {
    listener_ = *network_.HostNetwork("b").Listen({.host = "", .port = 7400});
    near_ = *network_.HostNetwork("a").Connect({.host = "b", .port = 7400}, {});
    Drain();
    far_ = *listener_->Accept();
    ASSERT_NE(far_, nullptr);
  }

  void Drain() {
    while (network_.NextEventTime()) network_.AdvanceTo(*network_.NextEventTime());
  }

  static absl::StatusOr<size_t> Write(Connection& connection, std::string text) {
    const iovec piece{.iov_base = text.data(), .iov_len = text.size()};
    return connection.Write({&piece, 1});
  }

  static std::string Read(Connection& connection) {
    std::string text(5000, '?');
    const iovec piece{.iov_base = text.data(), .iov_len = text.size()};
    absl::StatusOr<size_t> got = connection.Read({&piece, 1});
    return got.ok() ? text.substr(0, *got) : std::string(got.status().message());
  }

  SimClock clock_;
  SimNetwork network_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> near_;
  std::unique_ptr<Connection> far_;
};

TEST_F(SimNetworkTest, BytesArriveInOrderAfterADelay) {
  Connect();
  EXPECT_EQ(far_->remote(), near_->local());
  const MonotonicNs before = clock_.Now();
  ASSERT_EQ(*Write(*near_, "hello "), 6u);
  ASSERT_EQ(*Write(*near_, "world"), 5u);
  EXPECT_FALSE(far_->readable());
  EXPECT_EQ(Read(*far_), "");
  Drain();
  EXPECT_GT(clock_.Now(), before);
  EXPECT_TRUE(far_->readable());
  EXPECT_TRUE(network_.HostNetwork("b").Poll());
  EXPECT_FALSE(network_.HostNetwork("b").Poll());
  EXPECT_EQ(Read(*far_), "hello world");
}

TEST_F(SimNetworkTest, FullBufferStopsTheWriter) {
  Connect();
  EXPECT_EQ(*Write(*near_, std::string(1500, 'x')), 1000u);
  EXPECT_FALSE(near_->writable());
  EXPECT_EQ(*Write(*near_, "y"), 0u);
  Drain();
  EXPECT_FALSE(near_->writable());
  EXPECT_EQ(Read(*far_).size(), 1000u);
  EXPECT_TRUE(near_->writable());
}

TEST_F(SimNetworkTest, ClosedStreamIsReadToItsEnd) {
  Connect();
  ASSERT_EQ(*Write(*near_, "final bytes"), 11u);
  near_.reset();
  Drain();
  EXPECT_EQ(Read(*far_), "final bytes");
  EXPECT_EQ(Read(*far_), "stream with a:49153: closed by the peer");
  EXPECT_EQ(Write(*far_, "too late").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SimNetworkTest, CutLosesBytesInTransitAtBothEnds) {
  Connect();
  ASSERT_EQ(network_.open_streams(), 1u);
  ASSERT_EQ(*Write(*near_, "lost"), 4u);
  EXPECT_EQ(network_.Cut("b", "a"), 1);
  EXPECT_EQ(network_.open_streams(), 0u);
  EXPECT_TRUE(far_->readable());
  EXPECT_EQ(Read(*far_), "stream with a:49153: cut");
  EXPECT_EQ(Read(*near_), "stream with b:7400: cut");
  Drain();
}

TEST_F(SimNetworkTest, PartitionDelaysBytesAndLosesNone) {
  Connect();
  network_.Partition("a", "b");
  ASSERT_EQ(*Write(*near_, "one "), 4u);
  Drain();
  ASSERT_EQ(*Write(*near_, "two"), 3u);
  Drain();
  EXPECT_FALSE(far_->readable());
  network_.Heal("b", "a");
  Drain();
  EXPECT_EQ(Read(*far_), "one two");
}

TEST_F(SimNetworkTest, ConnectWithoutListenerIsRefused) {
  near_ = *network_.HostNetwork("a").Connect({.host = "b", .port = 1}, {});
  EXPECT_FALSE(near_->writable());
  Drain();
  EXPECT_EQ(Read(*near_), "stream with b:1: connection refused");
}

TEST_F(SimNetworkTest, SourcePortServesOneStreamPerDestination) {
  Connect();
  const Endpoint there{.host = "b", .port = 7400};
  near_ = *network_.HostNetwork("a").Connect(there, {.source_host = "", .source_port = 40001});
  EXPECT_EQ(near_->local().port, 40001);
  EXPECT_EQ(network_.HostNetwork("a")
                .Connect(there, {.source_host = "", .source_port = 40001})
                .status()
                .code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(SimNetworkSeeds, SameSeedGivesTheSameRun) {
  auto run = [](uint64_t seed) {
    SimClock clock;
    SimNetwork network(clock, seed);
    auto listener = *network.HostNetwork("b").Listen({.host = "", .port = 7400});
    auto near = *network.HostNetwork("a").Connect(listener->local(), {});
    std::vector<MonotonicNs> times;
    std::string text(30'000, 'x');
    const iovec piece{.iov_base = text.data(), .iov_len = text.size()};
    while (network.NextEventTime()) {
      times.push_back(*network.NextEventTime());
      network.AdvanceTo(times.back());
      if (near->writable() && times.size() < 100) (void)*near->Write({&piece, 1});
    }
    return times;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

}  // namespace sim_network_test
}  // namespace mccs
