#include "service/communicator/links/peer_link.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
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
constexpr size_t kFramesPerWrite = 16;

}  // namespace

std::string CutPeerText(const std::string& text) { return CutText(text, kMaxPeerTextBytes); }

peer::Message FailedMessage(const absl::Status& why) {
  peer::Message message;
  message.mutable_failed()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_failed()->set_message(CutPeerText(std::string(why.message())));
  return message;
}

absl::Status StatusFromPeer(uint32_t code, const std::string& text) {
  const bool known = code > 0 && code <= static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  std::string line = CutPeerText(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal,
                      line);
}

PeerFrame MakeFrame(const peer::Message& message) {
  auto frame = std::make_shared<std::string>();
  const uint32_t length = htonl(static_cast<uint32_t>(message.ByteSizeLong()));
  frame->append(reinterpret_cast<const char*>(&length), kPrefixBytes);
  message.AppendToString(frame.get());
  return frame;
}

void PeerLink::Queue(PeerFrame frame) {
  if (!status_.ok()) return;
  backlog_ += frame->size();
  outgoing_.push_back(std::move(frame));
  if (backlog_ - sent_ > kMaxPeerBacklogBytes) {
    status_ = absl::ResourceExhaustedError(absl::StrCat(
        "peer ", ToString(remote()), " does not read its messages: ", FormatBytes(backlog_ - sent_),
        " are queued; check that mccsd on that host responds"));
  }
}

void PeerLink::Send(PeerFrame frame) {
  Queue(std::move(frame));
  Poll();
}

bool PeerLink::Poll() {
  size_t left = kPeerBytesPerCall;
  while (status_.ok() && !flushed() && left > 0 && connection_->writable()) {
    auto written = WriteSome(left);
    if (!written.ok()) {
      status_ = written.status();
      return true;
    }
    if (*written == 0) break;
    left -= *written;
  }
  return left < kPeerBytesPerCall;
}

// Writes at most `most` bytes of the first frames.
absl::StatusOr<size_t> PeerLink::WriteSome(size_t most) {
  std::array<iovec, kFramesPerWrite> pieces;
  size_t used = 0;
  size_t skip = sent_;
  for (const PeerFrame& frame : outgoing_) {
    if (used == pieces.size() || most == 0) break;
    const size_t bytes = std::min(frame->size() - std::exchange(skip, 0), most);
    pieces[used] = {const_cast<char*>(frame->data()) + (used == 0 ? sent_ : 0), bytes};
    ++used;
    most -= bytes;
  }
  MCCS_ASSIGN_OR_RETURN(const size_t written, connection_->Write({pieces.data(), used}));
  moved_bytes_ += written;
  sent_ += written;
  while (!outgoing_.empty() && sent_ >= outgoing_.front()->size()) {
    sent_ -= outgoing_.front()->size();
    backlog_ -= outgoing_.front()->size();
    outgoing_.pop_front();
  }
  return written;
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
  const size_t first = incoming_.size();
  while (incoming_.size() < kPrefixBytes + length) {
    const size_t before = incoming_.size();
    if (before - first >= kPeerBytesPerCall) return std::nullopt;
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
  moved_bytes_ += incoming_.size() - before;
  if (!got.ok()) status_ = got.status();
  return incoming_.size() > before ? absl::OkStatus() : status_;
}

}  // namespace mccs
