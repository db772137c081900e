#include "service/communicator/links/peer_link.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "base/utf8.h"

namespace mccs {
namespace {

constexpr size_t kPrefixBytes = sizeof(uint32_t);
constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kMaxPeerTextBytes = 2048;

}  // namespace

peer::Message FailedMessage(const absl::Status& why) {
  peer::Message message;
  message.mutable_failed()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_failed()->set_message(CutText(std::string(why.message()), kMaxPeerTextBytes));
  return message;
}

absl::Status StatusFromPeer(uint32_t code, const std::string& text) {
  const bool known = code > 0 && code <= static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  std::string line = CutText(text, kMaxPeerTextBytes);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal,
                      line);
}

void PeerLink::Send(const peer::Message& message) {
  if (!status_.ok()) return;
  const uint32_t length = htonl(static_cast<uint32_t>(message.ByteSizeLong()));
  outgoing_.append(reinterpret_cast<const char*>(&length), kPrefixBytes);
  message.AppendToString(&outgoing_);
  if (outgoing_.size() - sent_ > kMaxPeerBacklogBytes) {
    status_ = absl::ResourceExhaustedError(
        absl::StrCat("peer ", ToString(remote()),
                     " does not read its messages: ", FormatBytes(outgoing_.size() - sent_),
                     " are queued; check that mccsd on that host responds"));
  }
  Poll();
}

bool PeerLink::Poll() {
  bool moved = false;
  while (status_.ok() && !flushed() && connection_->writable()) {
    const iovec piece{outgoing_.data() + sent_, outgoing_.size() - sent_};
    auto written = connection_->Write({&piece, 1});
    if (!written.ok()) {
      status_ = written.status();
      return true;
    }
    if (*written == 0) break;
    sent_ += *written;
    moved = true;
  }
  if (flushed()) {
    outgoing_.clear();
    sent_ = 0;
  }
  return moved;
}

absl::StatusOr<std::optional<peer::Message>> PeerLink::Receive() {
  if (incoming_.size() < kPrefixBytes) MCCS_RETURN_IF_ERROR(Fill());
  if (incoming_.size() < kPrefixBytes) return std::nullopt;
  uint32_t length;
  std::memcpy(&length, incoming_.data(), kPrefixBytes);
  length = ntohl(length);
  const uint32_t most = std::min(most_bytes_, kMaxPeerMessageBytes);
  if (length > most) {
    return status_ = absl::DataLossError(absl::StrCat("peer ", ToString(remote()),
                                                      " announces a message of ", length,
                                                      " bytes; at most ", most, " are allowed"));
  }
  while (incoming_.size() < kPrefixBytes + length) {
    const size_t before = incoming_.size();
    MCCS_RETURN_IF_ERROR(Fill());
    if (incoming_.size() == before) return std::nullopt;
  }
  peer::Message message;
  if (!message.ParseFromArray(incoming_.data() + kPrefixBytes, static_cast<int>(length))) {
    return status_ = absl::DataLossError(
               absl::StrCat("peer ", ToString(remote()), " sent a message that cannot be parsed"));
  }
  incoming_.erase(0, kPrefixBytes + length);
  return message;
}

// Reads available data, at most kReadBytes. After a failed write it still returns what the peer
// sent before the stream broke, which often contains the reason.
absl::Status PeerLink::Fill() {
  if (!connection_->readable()) return status_;
  const size_t before = incoming_.size();
  incoming_.resize(before + kReadBytes);
  const iovec piece{incoming_.data() + before, kReadBytes};
  auto got = connection_->Read({&piece, 1});
  incoming_.resize(before + (got.ok() ? *got : 0));
  if (!got.ok()) status_ = got.status();
  return incoming_.size() > before ? absl::OkStatus() : status_;
}

}  // namespace mccs
