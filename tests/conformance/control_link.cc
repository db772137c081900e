#include "conformance/control_link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace conformance {
namespace {

struct Header {
  uint32_t kind;
  uint32_t test;
  uint32_t number;
  uint32_t bytes;
};
static_assert(sizeof(Header) == 16);

constexpr size_t kPieceBytes = 64 * 1024;

using Clock = std::chrono::steady_clock;
constexpr auto kConnectTimeout = std::chrono::seconds(60);
constexpr auto kRetryPause = std::chrono::milliseconds(10);
constexpr int kBacklog = 1024;
constexpr int kTickMs = 1000;

[[noreturn]] void Die(const JobPlace& place, const char* what, const char* why) {
  std::fprintf(stderr, "conformance: rank %d: %s %s:%s: %s\n", place.rank, what,
               place.master_address.c_str(), place.master_port.c_str(), why);
  std::exit(1);
}

addrinfo* Resolve(const JobPlace& place) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const char* port = place.master_port.empty() ? "0" : place.master_port.c_str();
  int error = getaddrinfo(place.master_address.c_str(), port, &hints, &found);
  if (error != 0) Die(place, "cannot resolve", gai_strerror(error));
  return found;
}

std::string BoundPort(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  char port[NI_MAXSERV] = "";
  getnameinfo(reinterpret_cast<sockaddr*>(&address), length, nullptr, 0, port, sizeof(port),
              NI_NUMERICSERV);
  return port;
}

}  // namespace

std::string PackParts(const std::vector<std::string>& parts) {
  std::string packed;
  for (const std::string& part : parts) {
    const auto bytes = static_cast<uint32_t>(part.size());
    packed.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes)).append(part);
  }
  return packed;
}

std::vector<std::string> UnpackParts(const std::string& packed) {
  std::vector<std::string> parts;
  for (size_t at = 0; at + sizeof(uint32_t) <= packed.size();) {
    uint32_t bytes;
    std::memcpy(&bytes, packed.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    parts.push_back(packed.substr(at, bytes));
    at += bytes;
  }
  return parts;
}

bool SendFrame(int fd, const Frame& frame) {
  const Header header{static_cast<uint32_t>(frame.kind), frame.test, frame.number,
                      static_cast<uint32_t>(frame.payload.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += frame.payload;
  for (size_t sent = 0; sent < bytes.size();) {
    ssize_t now = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

bool FrameReader::Read() {
  char piece[kPieceBytes];
  while (true) {
    ssize_t got = recv(fd_, piece, sizeof(piece), MSG_DONTWAIT);
    if (got > 0) {
      bytes_.append(piece, static_cast<size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
}

std::optional<Frame> FrameReader::Next() {
  Header header;
  if (bytes_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (bytes_.size() < sizeof(header) + header.bytes) return std::nullopt;
  Frame frame{static_cast<FrameKind>(header.kind), header.test, header.number,
              bytes_.substr(sizeof(header), header.bytes)};
  bytes_.erase(0, sizeof(header) + header.bytes);
  return frame;
}

int ListenForRanks(JobPlace* place) {
  addrinfo* address = Resolve(*place);
  int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      bind(listener, address->ai_addr, address->ai_addrlen) != 0 ||
      listen(listener, kBacklog) != 0) {
    Die(*place, "cannot listen for the other ranks at", std::strerror(errno));
  }
  freeaddrinfo(address);
  place->master_port = BoundPort(listener);
  return listener;
}

ControlLink::ControlLink(const JobPlace& place, int rank)
    : fd_([&] {
        addrinfo* address = Resolve(place);
        for (const auto deadline = Clock::now() + kConnectTimeout; Clock::now() < deadline;) {
          int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
          if (fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen) == 0) {
            freeaddrinfo(address);
            return fd;
          }
          if (fd >= 0) close(fd);
          std::this_thread::sleep_for(kRetryPause);
        }
        Die(place, "cannot connect to rank 0 at", std::strerror(errno));
      }()),
      reader_(fd_) {
  SendFrame(fd_, {FrameKind::kHello, 0, static_cast<uint32_t>(rank), ""});
}

ControlLink::~ControlLink() { close(fd_); }

void ControlLink::BeginTest(size_t test) {
  test_ = static_cast<uint32_t>(test);
  peer_failure_.clear();
}

std::optional<Frame> ControlLink::Await(Deadline deadline) {
  while (true) {
    if (std::optional<Frame> frame = reader_.Next()) return frame;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (!open_ || left.count() <= 0) return std::nullopt;
    pollfd waiting{fd_, POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left.count() + 1, kTickMs)));
    open_ = reader_.Read();
  }
}

void ControlLink::HandleFrame(const Frame& frame) {
  if (frame.kind == FrameKind::kPeerFailed && frame.test == test_) peer_failure_ = frame.payload;
}

std::optional<std::vector<std::string>> ControlLink::Exchange(const std::string& own,
                                                              int participants, Deadline deadline,
                                                              std::string* trouble) {
  SendFrame(fd_, {FrameKind::kContribute, test_, static_cast<uint32_t>(participants), own});
  while (std::optional<Frame> frame = Await(deadline)) {
    if (frame->test != test_) continue;  // a late reply for the previous test
    if (frame->kind == FrameKind::kAllParts) return UnpackParts(frame->payload);
    HandleFrame(*frame);
    if (frame->kind == FrameKind::kPeerLeft) {
      *trouble = "another rank has left the test: " + frame->payload;
      if (peer_failure_.empty()) peer_failure_ = *trouble;
      return std::nullopt;
    }
  }
  *trouble = "timed out waiting for the other ranks";
  return std::nullopt;
}

const std::string& ControlLink::PeerFailure() {
  open_ = open_ && reader_.Read();
  while (std::optional<Frame> frame = reader_.Next()) HandleFrame(*frame);
  return peer_failure_;
}

bool ControlLink::Finish(Outcome outcome, const std::string& text, Outcome* of_all) {
  SendFrame(fd_, {FrameKind::kFinish, test_, static_cast<uint32_t>(outcome), text});
  while (std::optional<Frame> frame = Await(Deadline::max())) {
    if (frame->kind != FrameKind::kVerdict || frame->test != test_) continue;
    *of_all = static_cast<Outcome>(frame->number);
    return true;
  }
  return false;
}

}  // namespace conformance
