#include "conformance/control_frame.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

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

}  // namespace conformance
