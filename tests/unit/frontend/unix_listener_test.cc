// mccsd's listener on real sockets: which processes it accepts, their tenants, and how it detects
// their end.
#include "service/frontend/unix_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace unix_listener_test {

constexpr int64_t kTimeoutNs = 2'000'000'000;
constexpr int kTurns = 50;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

UniqueFd Connect(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(path);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    fd.Reset();
  return fd;
}

class UnixListenerTest : public testing::Test {
 protected:
  absl::Status Open(const std::string& tenant = "", unsigned mode = 0600) {
    auto listener = UnixListener::Open({.path = path_, .tenant = tenant, .mode = mode}, *reactor_);
    if (listener.ok()) listener_ = std::move(*listener);
    return listener.status();
  }
  std::unique_ptr<TenantChannel> Accept() {
    for (int i = 0; i < kTurns; ++i) {
      auto channel = listener_->Accept();
      if (absl::IsNotFound(channel.status())) continue;
      if (!channel.ok()) return nullptr;
      if (*channel != nullptr) return std::move(*channel);
      reactor_->Wait(kTimeoutNs / kTurns);
    }
    return nullptr;
  }
  // The next message, or the end of the process.
  absl::StatusOr<bool> Receive(TenantChannel& channel, TenantMessage* message) {
    for (int i = 0; i < kTurns; ++i) {
      auto got = channel.Receive(message);
      if (!got.ok() || *got) return got;
      reactor_->Wait(kTimeoutNs / kTurns);
    }
    return false;
  }

  const TemporaryDirectory directory_;
  std::string path_ = directory_.File("sock");
  std::unique_ptr<Reactor> reactor_ = std::move(*Reactor::Create());
  std::unique_ptr<UnixListener> listener_;
};

// A process that is connected to the default socket.
class ConnectedProcessTest : public UnixListenerTest {
 protected:
  void SetUp() override {
    UnixListenerTest::SetUp();
    ASSERT_TRUE(Open().ok());
    client_ = Connect(path_);
    channel_ = Accept();
    ASSERT_NE(channel_, nullptr);
  }

  UniqueFd client_;
  std::unique_ptr<TenantChannel> channel_;
  TenantMessage message_;
};

TEST_F(ConnectedProcessTest, TheCommonSocketsTenantIsTheUser) {
  EXPECT_EQ(channel_->identity().tenant, absl::StrCat("uid ", getuid()));
  EXPECT_EQ(channel_->identity().process, getpid());
}

TEST_F(UnixListenerTest, ASocketOfItsOwnNamesTheTenantAndKeepsItsMode) {
  ASSERT_TRUE(Open("blue", 0640).ok());
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  const UniqueFd client = Connect(path_);
  const auto channel = Accept();
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->identity().tenant, "blue");
}

TEST_F(ConnectedProcessTest, MessagesAndDescriptorsGoBothWays) {
  const UniqueFd one(memfd_create("one", MFD_CLOEXEC)), two(memfd_create("two", MFD_CLOEXEC));
  const int fds[] = {one.get(), two.get()};
  const std::byte text[] = {std::byte{'h'}, std::byte{'i'}};
  ASSERT_TRUE(channel_->Send(text, fds).ok());

  char data[16];
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  iovec piece{data, sizeof(data)};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ASSERT_EQ(recvmsg(client_.get(), &header, 0), 2);
  // The client sends its copies back in a message of its own.
  ASSERT_EQ(sendmsg(client_.get(), &header, 0), static_cast<ssize_t>(sizeof(data)));
  int copies[2];
  std::memcpy(copies, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(copies));
  const UniqueFd a(copies[0]), b(copies[1]);

  const auto got = Receive(*channel_, &message_);
  ASSERT_TRUE(got.ok() && *got);
  EXPECT_EQ(message_.size, sizeof(data));
  ASSERT_TRUE(message_.fds[0].valid() && message_.fds[1].valid());
  ASSERT_EQ(write(message_.fds[1].get(), "x", 1), 1);
  char x = 0;
  ASSERT_EQ(pread(two.get(), &x, 1, 0), 1);
  EXPECT_EQ(x, 'x');
}

// ---- Unexpected descriptors ---------------------------------------------------------------------

void SendDescriptors(int channel, int fd, int copies) {
  std::vector<int> fds(static_cast<size_t>(copies), fd);
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  char data[8] = {};
  iovec piece{data, sizeof(data)};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  ASSERT_EQ(sendmsg(channel, &header, 0), static_cast<ssize_t>(sizeof(data)));
}

// A TCP socket whose last close blocks as long as its creator likes: its data is not read.
class LingeringSocket {
 public:
  LingeringSocket() {
    listener_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    const int little = 4096;  // to fill it quickly
    EXPECT_EQ(setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    EXPECT_EQ(bind(listener_.get(), any, length), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), any, &length), 0);
    fd_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
    EXPECT_EQ(connect(fd_.get(), any, length), 0);
    peer_.Reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger wait{.l_onoff = 1, .l_linger = kLingerS};
    EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
    const std::string data(1 << 16, 'x');
    while (send(fd_.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
    }
  }
  static constexpr int kLingerS = 5;
  // The receiver has the last descriptor.
  UniqueFd Take() { return std::move(fd_); }
  // Then only the receiver has it.
  void SendAway(int channel, int copies = 1) {
    SendDescriptors(channel, fd_.get(), copies);
    fd_.Reset();
  }

 private:
  UniqueFd listener_, fd_, peer_;
};

class Stopwatch {
 public:
  bool IsShort() const {
    return std::chrono::steady_clock::now() - start_ <
           std::chrono::seconds(LingeringSocket::kLingerS) / 2;
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void RaiseDescriptorLimit() {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::max<rlim_t>(files.rlim_cur, ForeignDescriptors::kMaxTotal + 1024);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

std::vector<UniqueFd> Copies(size_t count) {
  std::vector<UniqueFd> copies(count);
  const UniqueFd file(memfd_create("copied", MFD_CLOEXEC));
  for (UniqueFd& copy : copies) copy.Reset(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  return copies;
}

// Uses all threads of the tenant.
void BlockThreads(ForeignDescriptors& foreign, const ForeignDescriptors::Sender& sender,
                  std::vector<LingeringSocket>* slow) {
  for (LingeringSocket& each : *slow) {
    std::vector<UniqueFd> one;
    one.push_back(each.Take());
    foreign.CloseAsync(sender, std::move(one));
  }
}

TEST_F(ConnectedProcessTest, AForeignDescriptorEndsItsSessionAndBlocksNoOther) {
  LingeringSocket slow;
  slow.SendAway(client_.get());
  const Stopwatch watch;
  {
    TenantMessage message;
    const auto got = Receive(*channel_, &message);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(got.status().message(), testing::HasSubstr("not memory files"));
  }
  channel_.reset();
  EXPECT_TRUE(watch.IsShort());
}

TEST_F(ConnectedProcessTest, TooManyDescriptorsBlockNoOther) {
  LingeringSocket slow;
  slow.SendAway(client_.get(), 253);
  const Stopwatch watch;
  {
    TenantMessage message;
    EXPECT_FALSE(Receive(*channel_, &message).ok());
  }
  channel_.reset();
  EXPECT_TRUE(watch.IsShort());
}

TEST_F(ConnectedProcessTest, UnreadMessagesDoNotBlockTheClose) {
  LingeringSocket slow, another;
  slow.SendAway(client_.get());
  another.SendAway(client_.get());
  const Stopwatch watch;
  channel_.reset();
  EXPECT_TRUE(watch.IsShort());
}

// Otherwise it would fill the daemon's descriptor table with messages and connections.
TEST_F(UnixListenerTest, RejectsATenantWithTooManyDescriptors) {
  constexpr int kOfAMessage = 253;
  constexpr int kThreads = ForeignDescriptors::kMaxThreadsPerTenant;
  constexpr int kMessages = (ForeignDescriptors::kMaxPerTenant - kThreads) / kOfAMessage + 1;
  RaiseDescriptorLimit();
  ASSERT_TRUE(Open().ok());
  const UniqueFd inside = Connect(path_);
  const auto talks_on = Accept();
  ASSERT_NE(talks_on, nullptr);
  std::vector<LingeringSocket> slow(kThreads);
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  const UniqueFd read_end(pipes[0]), write_end(pipes[1]);
  const Stopwatch watch;
  TenantMessage message;
  for (int i = 0; i < kThreads + kMessages; ++i) {
    const UniqueFd client = Connect(path_);
    const auto channel = Accept();
    ASSERT_NE(channel, nullptr) << i;
    if (i < kThreads) {
      slow[static_cast<size_t>(i)].SendAway(client.get());
    } else {
      SendDescriptors(client.get(), read_end.get(), kOfAMessage);
    }
    EXPECT_TRUE(absl::IsInvalidArgument(Receive(*channel, &message).status()));
  }
  const UniqueFd client = Connect(path_);
  SendDescriptors(client.get(), read_end.get(), kOfAMessage);
  const size_t before = OpenDescriptors();
  reactor_->Wait(kTimeoutNs);
  const auto rejected = listener_->Accept();
  EXPECT_TRUE(absl::IsPermissionDenied(rejected.status()));
  EXPECT_THAT(std::string(rejected.status().message()),
              testing::ContainsRegex("mccsd holds 1[0-9]{3} of its descriptors that cannot be"));
  EXPECT_LE(OpenDescriptors(), before + 1) << "its message stays in its socket";

  ASSERT_EQ(send(inside.get(), "hello", 5, 0), 5);
  EXPECT_TRUE(*Receive(*talks_on, &message)) << "a process that sends no descriptors is served";
  SendDescriptors(inside.get(), read_end.get(), kOfAMessage);
  EXPECT_TRUE(absl::IsResourceExhausted(Receive(*talks_on, &message).status()));
  EXPECT_LE(OpenDescriptors(), before + 1);

  slow.clear();  // The descriptors can be closed now.
  std::unique_ptr<TenantChannel> welcome;
  while (welcome == nullptr && watch.IsShort()) {
    const UniqueFd another = Connect(path_);
    welcome = Accept();
  }
  EXPECT_NE(welcome, nullptr);
  EXPECT_TRUE(watch.IsShort());
}

// A tenant may have several sockets.
TEST_F(UnixListenerTest, TheSocketsOfATenantShareItsLimit) {
  RaiseDescriptorLimit();
  const auto foreign = std::make_shared<ForeignDescriptors>();
  std::vector<LingeringSocket> slow(ForeignDescriptors::kMaxThreadsPerTenant);
  BlockThreads(*foreign, {"blue", "elsewhere"}, &slow);
  foreign->CloseAsync({"blue", "elsewhere"}, Copies(ForeignDescriptors::kMaxPerTenant));
  for (const std::string tenant : {"blue", "red"}) {
    auto listener =
        UnixListener::Open({.path = path_, .tenant = tenant, .foreign = foreign}, *reactor_);
    ASSERT_TRUE(listener.ok());
    listener_ = *std::move(listener);
    const UniqueFd client = Connect(path_);
    reactor_->Wait(kTimeoutNs);
    EXPECT_EQ(absl::IsPermissionDenied(listener_->Accept().status()), tenant == "blue");
    listener_.reset();
  }
}

TEST(ForeignDescriptorsTest, ATenantLeavesThreadsAndDescriptorsForOthers) {
  RaiseDescriptorLimit();
  ForeignDescriptors foreign;
  const Stopwatch watch;
  std::vector<LingeringSocket> slow(ForeignDescriptors::kMaxThreadsPerTenant);
  BlockThreads(foreign, {"blue", "a"}, &slow);
  foreign.CloseAsync({"blue", "a"}, Copies(ForeignDescriptors::kMaxPerTenant));
  EXPECT_TRUE(foreign.IsFull("blue"));
  EXPECT_FALSE(foreign.IsFull("red"));
  foreign.CloseAsync({"red", "a"}, Copies(100));
  while (foreign.OfTenant("red") > 0 && watch.IsShort()) sched_yield();
  EXPECT_EQ(foreign.OfTenant("red"), 0u) << "closed by a thread of its own";
  EXPECT_GE(foreign.OfTenant("blue"), ForeignDescriptors::kMaxPerTenant);
}

// Each process that is rejected costs one until it closes, on the socket to which it connects.
TEST(ForeignDescriptorsTest, NoSocketUsesUpTheWhole) {
  RaiseDescriptorLimit();
  ForeignDescriptors foreign;
  std::vector<LingeringSocket> slow(ForeignDescriptors::kMaxThreadsPerTenant);
  BlockThreads(foreign, {"blue", "a"}, &slow);
  for (const std::string listener : {"a", "b", "c"}) {
    EXPECT_FALSE(foreign.IsListenerFull(listener));
    while (!foreign.IsListenerFull(listener)) foreign.CloseAsync({"blue", listener}, Copies(1));
  }
  EXPECT_NEAR(static_cast<double>(foreign.OfListener("a")), ForeignDescriptors::kMaxTotal / 2, 1);
  EXPECT_LE(foreign.OfTenant("blue"), ForeignDescriptors::kMaxTotal);
  EXPECT_FALSE(foreign.IsListenerFull("d"));
  EXPECT_FALSE(foreign.IsFull("red"));
}

// Such a message reads like the end of the connection.
TEST_F(ConnectedProcessTest, EmptyMessagesDoNotHideUnreadOnes) {
  LingeringSocket slow;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(send(client_.get(), "", 0, 0), 0);
  slow.SendAway(client_.get());
  const Stopwatch watch;
  channel_.reset();
  EXPECT_TRUE(watch.IsShort());
}

TEST_F(UnixListenerTest, DescriptorsOfManyMessagesAreClosedInTheEnd) {
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 3 * ForeignDescriptors::kMaxThreads; ++i) {
    const UniqueFd client = Connect(path_);
    auto channel = Accept();
    ASSERT_NE(channel, nullptr);
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const UniqueFd read_end(pipes[0]);
    UniqueFd write_end(pipes[1]);
    SendDescriptors(client.get(), write_end.get(), 1);
    write_end.Reset();
    channel.reset();
    char nothing = 0;
    EXPECT_EQ(read(read_end.get(), &nothing, 1), 0) << "the last writer has closed it";
  }
}

TEST_F(UnixListenerTest, AStaleSocketFileIsReplaced) {
  {
    const UniqueFd old(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    const sockaddr_un address = AddressOf(path_);
    ASSERT_EQ(bind(old.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(Open().ok());
  EXPECT_TRUE(Connect(path_).valid());
}

TEST_F(UnixListenerTest, DoesNotReplaceASocketInUse) {
  ASSERT_TRUE(Open().ok());
  const auto second = UnixListener::Open({.path = path_, .tenant = ""}, *reactor_);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status()));
  EXPECT_TRUE(Connect(path_).valid());
}

TEST_F(UnixListenerTest, DoesNotReplaceAnotherFile) {
  std::ofstream(path_) << "precious";
  const absl::Status status = Open();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), testing::HasSubstr("not a socket"));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixListenerTest, RejectsALongPathWithItsLength) {
  path_ = directory_.File(std::string(200, 'x'));
  EXPECT_THAT(Open().message(), testing::HasSubstr("bytes; 1 to 107"));
}

TEST_F(UnixListenerTest, RemovesTheSocketFile) {
  ASSERT_TRUE(Open().ok());
  listener_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ConnectedProcessTest, AClosedSocketIsTheEndOfTheSession) {
  client_.Reset();
  EXPECT_TRUE(absl::IsUnavailable(Receive(*channel_, &message_).status()));
  const std::vector<std::byte> reply(8);
  EXPECT_TRUE(absl::IsUnavailable(channel_->Send(reply, {})));
}

// A data loader's worker inherits the socket and outlives the rank.
TEST_F(UnixListenerTest, TheDeathOfTheProcessIsSeenThoughAChildKeepsTheSocket) {
  ASSERT_TRUE(Open().ok());
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t process = fork();
  if (process == 0) {
    UniqueFd client = Connect(path_);
    if (fork() == 0) {  // The child keeps the socket until the test is over.
      close(hold[1]);
      char byte;
      [[maybe_unused]] ssize_t ignored = read(hold[0], &byte, 1);
      _exit(0);
    }
    _exit(client.valid() ? 0 : 1);
  }
  close(hold[0]);
  const auto channel = Accept();
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  if (channel != nullptr) {  // Otherwise the process ended before it was accepted.
    TenantMessage message;
    EXPECT_TRUE(absl::IsUnavailable(Receive(*channel, &message).status()));
  }
  close(hold[1]);
}

// It may have reported that its GPU has failed.
TEST_F(UnixListenerTest, TheLastMessagesOfADeadProcessAreReceived) {
  ASSERT_TRUE(Open().ok());
  constexpr size_t kMessages = 3;
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    const UniqueFd client = Connect(path_);
    char byte = 0;
    ssize_t ignored = read(go[0], &byte, 1);
    for (size_t i = 0; i < kMessages; ++i) ignored = send(client.get(), "last", 4, 0);
    _exit(ignored == 4 ? 0 : 1);
  }
  const std::unique_ptr<TenantChannel> channel = Accept();
  ASSERT_NE(channel, nullptr);
  // The process does not read it.
  ASSERT_TRUE(channel->Send(std::as_bytes(std::span("reply")), {}).ok());
  ASSERT_EQ(write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
  reactor_->Wait(kTimeoutNs);  // messages and end become known together
  TenantMessage message;
  for (size_t i = 0; i < kMessages; ++i) {
    const auto got = Receive(*channel, &message);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(message.size, 4u);
  }
  EXPECT_TRUE(absl::IsUnavailable(Receive(*channel, &message).status()));
  close(go[0]);
  close(go[1]);
}

TEST_F(UnixListenerTest, TheMessagesOfAChildDoNotKeepADeadProcessAlive) {
  ASSERT_TRUE(Open().ok());
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    const UniqueFd client = Connect(path_);
    if (fork() == 0) {  // sends until the daemon closes the socket
      while (send(client.get(), "more", 4, MSG_NOSIGNAL) == 4) {
      }
      _exit(0);
    }
    pause();
  }
  std::unique_ptr<TenantChannel> channel = Accept();
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(kill(process, SIGKILL), 0);
  ASSERT_EQ(waitpid(process, nullptr, 0), process);
  constexpr int kMostMessages = 100'000;
  TenantMessage message;
  int received = 0;
  absl::StatusOr<bool> got = true;
  while (got.ok() && ++received < kMostMessages) got = Receive(*channel, &message);
  EXPECT_TRUE(absl::IsUnavailable(got.status())) << received;
}

TEST_F(UnixListenerTest, ADeadProcessDoesNotHideTheNextOne) {
  ASSERT_TRUE(Open().ok());
  const pid_t process = fork();
  if (process == 0) {
    const UniqueFd client = Connect(path_);
    _exit(0);
  }
  ASSERT_EQ(waitpid(process, nullptr, 0), process);
  const UniqueFd client = Connect(path_);
  reactor_->Wait(kTimeoutNs);
  EXPECT_TRUE(absl::IsNotFound(listener_->Accept().status()))
      << "it counts, and the turn continues";
  const auto channel = listener_->Accept();
  ASSERT_TRUE(channel.ok());
  ASSERT_NE(*channel, nullptr);
  EXPECT_EQ((*channel)->identity().process, getpid());
}

// The tenant shares the doorbell's file: it can make it blocking, and read it empty.
TEST_F(ConnectedProcessTest, ACorruptDoorbellDoesNotBlockTheDaemon) {
  const UniqueFd bell(dup(channel_->doorbell()));
  const uint64_t one = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(bell.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    EXPECT_GT(reactor_->Wait(kTimeoutNs), 0) << "every ring ends a sleep";
    if (i == 1) {
      uint64_t rings;
      ASSERT_EQ(read(bell.get(), &rings, sizeof(rings)), static_cast<ssize_t>(sizeof(rings)));
      ASSERT_EQ(fcntl(bell.get(), F_SETFL, 0), 0);  // no O_NONBLOCK
    }
    alarm(5);  // a blocked daemon ends the test
    TenantMessage message;
    const auto got = channel_->Receive(&message);
    alarm(0);
    ASSERT_TRUE(got.ok());
    EXPECT_FALSE(*got);
  }
}

TEST_F(ConnectedProcessTest, DetectsAProcessThatDoesNotRead) {
  const std::vector<std::byte> message(wire::kMaxMessageBytes);
  absl::Status status;
  for (int i = 0; i < 100'000 && status.ok(); ++i) status = channel_->Send(message, {});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

}  // namespace unix_listener_test
}  // namespace mccs
