#include "controller/api/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <vector>

#include "base/check.h"
#include "tests/unit/eventually.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace acceptor_test {

using testing::HasSubstr;

sockaddr_in AddressAt(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

// A socket with the address `host`, not connected.
UniqueFd SocketAt(const char* host) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in from = AddressAt(host, 0);
  MCCS_CHECK(bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0);
  return fd;
}

void Connect(const UniqueFd& fd, int port) {
  const sockaddr_in to = AddressAt("127.0.0.1", port);
  MCCS_CHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
}

// Connections to a socket of this process, by the address of their client.
class OpenConnectionsTest : public testing::Test {
 protected:
  OpenConnectionsTest() : listener_(SocketAt("127.0.0.1")) {
    listen(listener_.get(), 64);
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }

  // The server's end.
  UniqueFd Accept(const char* client) {
    clients_.push_back(SocketAt(client));
    Connect(clients_.back(), port_);
    return UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

  const UniqueFd listener_;
  int port_ = 0;
  std::vector<UniqueFd> clients_;
  OpenConnections open_{8};
  std::vector<UniqueFd> held_;
};

TEST_F(OpenConnectionsTest, AnAddressGetsNoMoreThanItLeavesFree) {
  for (int i = 0; i < 4; ++i) {
    held_.push_back(Accept("127.0.0.1"));
    EXPECT_TRUE(open_.Add(held_.back().get(), 0).ok()) << i;
  }
  const UniqueFd fifth = Accept("127.0.0.1");
  EXPECT_EQ(open_.Add(fifth.get(), 0).message(),
            "address 127.0.0.1 has 4 of 8 connections, 4 are free, and an address may not have "
            "more than it leaves free");
  held_.push_back(Accept("127.0.0.2"));
  EXPECT_TRUE(open_.Add(held_.back().get(), 0).ok());
}

TEST_F(OpenConnectionsTest, ClosedConnectionsCountNoMore) {
  for (int i = 0; i < 4; ++i) {
    held_.push_back(Accept("127.0.0.1"));
    ASSERT_TRUE(open_.Add(held_.back().get(), 0).ok());
  }
  held_.resize(3);
  const UniqueFd other(
      fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));  // Takes the closed one's number.
  held_.push_back(Accept("127.0.0.1"));
  EXPECT_TRUE(open_.Add(held_.back().get(), 0).ok());
  EXPECT_EQ(open_.size(), 4u);
}

TEST(Acceptor, GivesEachConnectionWithoutBlocking) {
  RecordingLog log;
  std::atomic<int> taken = 0, blocking = 0;
  const auto acceptor = *Acceptor::Listen("localhost:0", &log);
  acceptor->Start([&](UniqueFd fd) {
    blocking += (fcntl(fd.get(), F_GETFL) & O_NONBLOCK) == 0;
    ++taken;
  });
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i)
    Connect(clients.emplace_back(SocketAt("127.0.0.1")), acceptor->port());
  EXPECT_TRUE(Eventually([&] { return taken == 3; }));
  EXPECT_EQ(blocking, 0);
}

TEST(Acceptor, NamesAnAddressThatItCannotUse) {
  RecordingLog log;
  const auto first = *Acceptor::Listen("127.0.0.1:0", &log);
  const std::string address = "127.0.0.1:" + std::to_string(first->port());
  EXPECT_THAT(std::string(Acceptor::Listen(address, &log).status().message()),
              HasSubstr("cannot listen on " + address + ": "));
  EXPECT_FALSE(Acceptor::Listen("192.0.2.1:0", &log).ok());
}

// THREAD: any.
class WarningCounter final : public Log {
 public:
  std::atomic<int> warnings = 0;

 protected:
  bool Enabled(LogLevel) const override { return true; }
  void Write(LogLevel, std::string_view line) override {
    warnings += line.find(
                    "clients wait, because no connection can be accepted: Too many open "
                    "files") != std::string_view::npos;
  }
};

// gRPC's listener would accept nothing any more, also after descriptors are free again.
TEST(Acceptor, GoesOnAfterTheProcessHadNoDescriptor) {
  WarningCounter log;
  // UndefinedBehaviorSanitizer needs descriptors to check the type of an object for the first time.
  LimitedWarnings(log, "reason").Write("", "", SystemClock().Now());
  std::atomic<int> taken = 0;
  const auto acceptor = *Acceptor::Listen("127.0.0.1:0", &log);
  const int port = acceptor->port();
  acceptor->Start([&](UniqueFd) { ++taken; });
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(SocketAt("127.0.0.1"));
  std::vector<UniqueFd> all;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(clients.back().get()) + 8;
  setrlimit(RLIMIT_NOFILE, &few);
  for (int fd = 0; (fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0;) all.emplace_back(fd);
  for (const UniqueFd& client : clients) Connect(client, port);
  EXPECT_TRUE(Eventually([&] { return log.warnings >= 2; })) << "it tries again";
  EXPECT_EQ(taken, 0);
  all.clear();
  EXPECT_TRUE(Eventually([&] { return taken == 3; }));
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace acceptor_test
}  // namespace mccs
