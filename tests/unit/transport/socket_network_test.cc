#include "service/transport/socket_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "base/clock.h"

namespace mccs {
namespace socket_network_test {

using testing::HasSubstr;

constexpr int64_t kTimeoutNs = 2 * kNsPerSec;

class SocketNetworkTest : public testing::Test {
 protected:
  std::unique_ptr<Listener> Listen(const std::string& host) {
    absl::StatusOr<std::unique_ptr<Listener>> listener = network_.Listen({.host = host, .port = 0});
    EXPECT_TRUE(listener.ok()) << listener.status();
    return *std::move(listener);
  }

  std::unique_ptr<Connection> Accept(Listener& listener) {
    for (int i = 0; i < 100; ++i) {
      absl::StatusOr<std::unique_ptr<Connection>> accepted = listener.Accept();
      EXPECT_TRUE(accepted.ok()) << accepted.status();
      if (*accepted != nullptr) return *std::move(accepted);
      reactor_->Wait(kTimeoutNs);
    }
    return nullptr;
  }

  // The connection's first error, or OK if there is none.
  absl::Status AwaitError(Connection& connection) {
    char byte;
    const iovec piece{.iov_base = &byte, .iov_len = 1};
    for (int i = 0; i < 100; ++i) {
      if (connection.readable()) {
        absl::StatusOr<size_t> got = connection.Read({&piece, 1});
        if (!got.ok()) return got.status();
      }
      reactor_->Wait(kTimeoutNs / 10);
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Reactor> reactor_ = *Reactor::Create();
  SocketNetwork network_{*reactor_};
};

TEST_F(SocketNetworkTest, EndpointsPrintAsPeopleWriteThem) {
  EXPECT_EQ(ToString(Endpoint{.host = "10.0.1.2", .port = 7400}), "10.0.1.2:7400");
  EXPECT_EQ(ToString(Endpoint{.host = "::1", .port = 7400}), "[::1]:7400");
}

TEST_F(SocketNetworkTest, BothEndsKnowTheFiveTupleAndTheChosenSourcePort) {
  std::unique_ptr<Listener> listener = Listen("127.0.0.1");
  std::unique_ptr<Listener> free = Listen("127.0.0.1");
  const uint16_t port = free->local().port;
  free.reset();
  auto near =
      network_.Connect(listener->local(), {.source_host = "127.0.0.1", .source_port = port});
  ASSERT_TRUE(near.ok()) << near.status();
  std::unique_ptr<Connection> far = Accept(*listener);
  ASSERT_NE(far, nullptr);
  EXPECT_EQ((*near)->local(), (Endpoint{.host = "127.0.0.1", .port = port}));
  EXPECT_EQ(far->remote(), (*near)->local());
  EXPECT_EQ(far->local(), (*near)->remote());
}

// Of this process's socket with these two ends; -1: there is none.
int OptionOf(const Connection& connection, int level, int option) {
  for (int fd = 3; fd < 1024; ++fd) {
    if (LocalEndpoint(fd) != connection.local() || RemoteEndpoint(fd) != connection.remote()) {
      continue;
    }
    int value = -1;
    socklen_t size = sizeof(value);
    EXPECT_EQ(getsockopt(fd, level, option, &value, &size), 0);
    return value;
  }
  return -1;
}

int DscpOf(const Connection& connection) { return OptionOf(connection, IPPROTO_IP, IP_TOS) >> 2; }

TEST_F(SocketNetworkTest, MarksHoldFromTheFirstPacketUntilTheNextMark) {
  std::unique_ptr<Listener> listener = Listen("127.0.0.1");
  const auto plain = network_.Connect(listener->local(), {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(DscpOf(**plain), 0);
  const std::unique_ptr<Connection> plain_end = Accept(*listener);
  ASSERT_NE(plain_end, nullptr);
  EXPECT_EQ(DscpOf(*plain_end), 0);
  listener->Mark(46);
  const auto marked =
      network_.Connect(listener->local(), {.source_host = "", .source_port = 0, .dscp = 40});
  ASSERT_TRUE(marked.ok()) << marked.status();
  EXPECT_EQ(DscpOf(**marked), 40);
  const std::unique_ptr<Connection> end = Accept(*listener);
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(DscpOf(*end), 46);
  end->Mark(0);
  EXPECT_EQ(DscpOf(*end), 0);
}

// Control links have no timeout of their own for a host that does not answer.
TEST_F(SocketNetworkTest, BothEndsOfAStreamHaveTheTimeoutForAPeerThatDoesNotAnswer) {
  SocketNetwork other(*reactor_, {.dead_after_ms = 3'000});
  const std::pair<SocketNetwork*, int> networks[] = {{&network_, 15}, {&other, 3}};
  for (const auto& [network, seconds] : networks) {
    SCOPED_TRACE(seconds);
    const auto listener = network->Listen({.host = "127.0.0.1", .port = 0});
    ASSERT_TRUE(listener.ok()) << listener.status();
    const auto near = network->Connect((*listener)->local(), {});
    ASSERT_TRUE(near.ok()) << near.status();
    const std::unique_ptr<Connection> far = Accept(**listener);
    ASSERT_NE(far, nullptr);
    for (const Connection* end : {near->get(), far.get()}) {
      EXPECT_EQ(OptionOf(*end, IPPROTO_TCP, TCP_USER_TIMEOUT), seconds * 1000);
      // Idle streams notice it by probes without an answer.
      EXPECT_EQ(OptionOf(*end, SOL_SOCKET, SO_KEEPALIVE), 1);
      EXPECT_EQ(OptionOf(*end, IPPROTO_TCP, TCP_KEEPIDLE), seconds / 3);
      EXPECT_EQ(OptionOf(*end, IPPROTO_TCP, TCP_KEEPINTVL), seconds / 3);
    }
  }
}

TEST_F(SocketNetworkTest, ASourcePortIsFreeAgainAtOnce) {
  std::unique_ptr<Listener> listener = Listen("127.0.0.1");
  std::unique_ptr<Listener> free = Listen("127.0.0.1");
  const ConnectOptions options{.source_host = "127.0.0.1", .source_port = free->local().port};
  free.reset();
  for (int i = 0; i < 5; ++i) {
    auto near = network_.Connect(listener->local(), options);
    ASSERT_TRUE(near.ok()) << "attempt " << i << ": " << near.status();
    std::unique_ptr<Connection> far = Accept(*listener);
    ASSERT_NE(far, nullptr);
    near->reset();
    EXPECT_EQ(AwaitError(*far).code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(SocketNetworkTest, ReportsASourcePortInUse) {
  std::unique_ptr<Listener> listener = Listen("127.0.0.1");
  std::unique_ptr<Listener> taken = Listen("127.0.0.1");
  const uint16_t port = taken->local().port;
  auto rejected = network_.Connect(listener->local(), {.source_host = "", .source_port = port});
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(rejected.status().message(),
              HasSubstr("source port " + std::to_string(port) + " in use"));
  taken.reset();
  auto first = network_.Connect(listener->local(), {.source_host = "", .source_port = port});
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = network_.Connect(listener->local(), {.source_host = "", .source_port = port});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
  // The same port with another destination is another 5-tuple.
  std::unique_ptr<Listener> elsewhere = Listen("127.0.0.1");
  auto third = network_.Connect(elsewhere->local(), {.source_host = "", .source_port = port});
  EXPECT_TRUE(third.ok()) << third.status();
}

TEST_F(SocketNetworkTest, ReportsAForeignSourceAddress) {
  std::unique_ptr<Listener> listener = Listen("127.0.0.1");
  auto rejected =
      network_.Connect(listener->local(), {.source_host = "192.0.2.1", .source_port = 0});
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(rejected.status().message(), HasSubstr("192.0.2.1 is not an address of this"));
  EXPECT_TRUE(network_.HasAddress("127.0.0.1"));
  EXPECT_TRUE(network_.HasLink("127.0.0.1"));
  EXPECT_TRUE(network_.HasAddress("127.1.2.3"));
  for (const char* foreign : {"192.0.2.1", "2001:db8::1", "", "localhost"}) {
    EXPECT_FALSE(network_.HasAddress(foreign)) << foreign;
  }
  auto mixed = network_.Connect(listener->local(), {.source_host = "::1", .source_port = 0});
  EXPECT_EQ(mixed.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SocketNetworkTest, ReportsAnUnresolvedName) {
  auto rejected = network_.Connect({.host = "no such host", .port = 1}, {});
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(rejected.status().message(), HasSubstr("'no such host'"));
}

TEST_F(SocketNetworkTest, AClosedPortIsUnavailableWithTheEndpoint) {
  std::unique_ptr<Listener> gone = Listen("127.0.0.1");
  const Endpoint to = gone->local();
  gone.reset();
  absl::StatusOr<std::unique_ptr<Connection>> near = network_.Connect(to, {});
  const absl::Status status = near.ok() ? AwaitError(**near) : near.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr(ToString(to)));
}

TEST_F(SocketNetworkTest, ALargeWriteStopsAtTheBufferAndGoesOnWhenItIsRead) {
  std::unique_ptr<Listener> listener = Listen("::1");
  std::unique_ptr<Connection> near = *network_.Connect(listener->local(), {});
  std::unique_ptr<Connection> far = Accept(*listener);
  ASSERT_NE(far, nullptr);
  std::string out(64 << 20, 'x');
  std::string in(out.size(), '?');
  size_t written = 0, read = 0;
  bool stopped = false;
  for (int i = 0; i < 100'000 && read < out.size(); ++i) {
    if (near->writable() && written < out.size()) {
      const iovec piece{.iov_base = out.data() + written, .iov_len = out.size() - written};
      written += *near->Write({&piece, 1});
      stopped = stopped || !near->writable();
    } else if (far->readable()) {
      const iovec piece{.iov_base = in.data() + read, .iov_len = in.size() - read};
      read += *far->Read({&piece, 1});
    } else {
      ASSERT_GT(reactor_->Wait(kTimeoutNs), 0) << written << " written, " << read << " read";
    }
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(in, out);
}

TEST_F(SocketNetworkTest, ReadsPendingBytesAfterAFailedWrite) {
  std::unique_ptr<Listener> listener = Listen("127.0.0.1");
  auto near = network_.Connect(listener->local(), {});
  ASSERT_TRUE(near.ok()) << near.status();
  std::unique_ptr<Connection> far = Accept(*listener);
  ASSERT_NE(far, nullptr);
  char word[] = "bye";
  const iovec whole{.iov_base = word, .iov_len = 3};
  ASSERT_TRUE(far->Write({&whole, 1}).ok());
  far.reset();
  // The first write may succeed: the peer answers with a reset, and the next write fails.
  absl::Status failed;
  for (int i = 0; i < 100 && failed.ok(); ++i) failed = (*near)->Write({&whole, 1}).status();
  ASSERT_FALSE(failed.ok());
  ASSERT_TRUE((*near)->readable());
  char received[8] = {};
  const iovec room{.iov_base = received, .iov_len = sizeof(received)};
  const absl::StatusOr<size_t> got = (*near)->Read({&room, 1});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(std::string(received, *got), "bye");
  EXPECT_FALSE((*near)->Read({&room, 1}).ok()) << "nothing is left";
  EXPECT_FALSE((*near)->Write({&whole, 1}).ok());
}

TEST_F(SocketNetworkTest, ReadsAllBytesBeforeTheEnd) {
  std::unique_ptr<Listener> listener = Listen("127.0.0.1");
  std::unique_ptr<Connection> near = *network_.Connect(listener->local(), {});
  std::unique_ptr<Connection> far = Accept(*listener);
  ASSERT_NE(far, nullptr);
  std::string word = "farewell";
  const iovec out{.iov_base = word.data(), .iov_len = word.size()};
  ASSERT_EQ(*near->Write({&out, 1}), word.size());
  near.reset();
  std::string got(100, '\0');
  const iovec in{.iov_base = got.data(), .iov_len = got.size()};
  for (int i = 0; i < 100 && got[0] == '\0'; ++i) {
    reactor_->Wait(kTimeoutNs / 10);
    if (far->readable()) {
      EXPECT_EQ(*far->Read({&in, 1}), word.size());
    }
  }
  EXPECT_EQ(AwaitError(*far).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(AwaitError(*far).code(), absl::StatusCode::kUnavailable) << "the error is final";
}

}  // namespace socket_network_test
}  // namespace mccs
