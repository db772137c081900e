#include "lab/vm_frames.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mccs::lab {
namespace {

constexpr size_t kHeaderBytes = 5;

bool SendAll(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(sent);
  }
  return true;
}

bool ReceiveAll(int connection, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(connection, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= got;
  }
  return true;
}

}  // namespace

std::optional<int> Frame::Number() const {
  int number = 0;
  if (!absl::SimpleAtoi(payload, &number)) return std::nullopt;
  return number;
}

bool SendFrame(int connection, Frame::Type type, std::string_view payload) {
  std::string frame(kHeaderBytes, '\0');
  frame[0] = static_cast<char>(type);
  for (int byte = 0; byte < 4; ++byte)
    frame[1 + byte] = static_cast<char>(payload.size() >> (8 * byte));
  frame.append(payload);
  return SendAll(connection, frame);
}

bool SendFrame(int connection, Frame::Type type, int number) {
  return SendFrame(connection, type, absl::StrCat(number));
}

std::optional<Frame> ReceiveFrame(int connection) {
  char header[kHeaderBytes];
  if (!ReceiveAll(connection, header, sizeof(header))) return std::nullopt;
  size_t length = 0;
  for (int byte = 0; byte < 4; ++byte)
    length |= static_cast<size_t>(static_cast<uint8_t>(header[1 + byte])) << (8 * byte);
  if (length > kMaxFrameBytes) return std::nullopt;
  Frame frame{.type = static_cast<Frame::Type>(header[0]), .payload = std::string(length, '\0')};
  if (!ReceiveAll(connection, frame.payload.data(), length)) return std::nullopt;
  return frame;
}

// Strings that end with NUL, as arguments and variables do: key, directory, file, number of
// arguments, arguments, variables.

namespace {

constexpr size_t kFixedFields = 4;

void AppendField(std::string_view field, std::string* payload) {
  payload->append(field);
  payload->push_back('\0');
}

}  // namespace

std::string EncodeRequest(const VmRequest& request) {
  std::string payload;
  AppendField(request.key, &payload);
  AppendField(request.directory, &payload);
  AppendField(request.file, &payload);
  AppendField(absl::StrCat(request.argv.size()), &payload);
  for (const std::string& argument : request.argv) AppendField(argument, &payload);
  for (const std::string& variable : request.environment) AppendField(variable, &payload);
  return payload;
}

std::optional<VmRequest> DecodeRequest(std::string_view payload) {
  if (payload.empty() || payload.back() != '\0') return std::nullopt;
  payload.remove_suffix(1);
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(payload.data(), payload.size()), '\0');
  size_t arguments = 0;
  if (fields.size() < kFixedFields || !absl::SimpleAtoi(fields[3], &arguments) ||
      arguments > fields.size() - kFixedFields) {
    return std::nullopt;
  }
  const auto argv = fields.begin() + kFixedFields;
  const auto environment = argv + static_cast<ptrdiff_t>(arguments);
  return VmRequest{.key = fields[0],
                   .directory = fields[1],
                   .file = fields[2],
                   .argv = {argv, environment},
                   .environment = {environment, fields.end()}};
}

}  // namespace mccs::lab
