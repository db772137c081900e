#include "service/messages/peer_puts.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Maximum number of cached windows of the peer; others are requested again.
constexpr size_t kMaxKnownWindows = 4096;
// Limit of the peer's requests that await registrations by our ranks, or whose replies await its
// lane. It requests each window once per waiting pair of ranks.
constexpr size_t kMaxWindowRequests = size_t{1} << 16;
// The amount of a kWindowReply for a closed window.
constexpr uint64_t kGoneBytes = std::numeric_limits<uint64_t>::max();

bool CarriesPayload(const MessageTag& tag) {
  return tag.kind == MessageTag::Kind::kPut || tag.kind == MessageTag::Kind::kSignal;
}

WindowPart PartOf(const PeerPuts::Slice& slice) {
  return {.number = slice.tag.number, .offset = slice.tag.amount, .bytes = slice.bytes};
}

}  // namespace

// ---- Outgoing -----------------------------------------------------------------------------------

absl::Status PeerPuts::Add(const OpenMessage& call) {
  const auto [entry, is_new] = outgoing_.try_emplace(call.pair);
  if (is_new) outgoing_to_[call.pair.destination].push_back(call.pair);
  Pair& pair = entry->second;
  pair.calls.push_back(call);
  return pair.calls.size() == 1 ? Start(pair) : absl::OkStatus();
}

absl::Status PeerPuts::Posted(const OpenMessage& call) {
  Pair& pair = outgoing_[call.pair];
  pair.calls.pop_front();
  pair.out = false;
  return Start(pair);
}

absl::Status PeerPuts::Start(Pair& pair) {
  if (pair.out || pair.calls.empty()) return absl::OkStatus();
  const OpenMessage& call = pair.calls.front();
  if (call.bytes() > 0) {
    const PostedMessage& put = *call.call;
    CachedWindow& known = FindOrRequestWindow(call.pair, put.window);
    const WindowView view = known.view;
    if (view.state == WindowView::State::kNotYet) {
      known.waiting.push_back(call.pair);
      return absl::OkStatus();
    }
    if (view.state == WindowView::State::kGone) {
      return absl::FailedPreconditionError(
          absl::StrCat(Describe(call), ": window #", put.window,
                       " of that rank is deregistered, or its registration failed"));
    }
    if (put.window_offset > view.bytes || call.bytes() > view.bytes - put.window_offset) {
      return absl::InvalidArgumentError(absl::StrCat(
          Describe(call), ": ", call.bytes(), " bytes at offset ", put.window_offset,
          " exceed window #", put.window, " of that rank, which has ", view.bytes, " bytes"));
    }
  }
  options_.outbox_of(call.pair).transfers.push_back(
      {.message = call, .stride = options_.slice_bytes});
  pair.out = true;
  return absl::OkStatus();
}

PeerPuts::CachedWindow& PeerPuts::FindOrRequestWindow(const RankPair& pair, uint64_t window) {
  const WindowKey key{pair.destination, window};
  if (answered_ >= kMaxKnownWindows && !windows_.contains(key)) {
    absl::erase_if(windows_, [](const auto& known) { return !known.second.requested; });
    answered_ = 0;
  }
  const auto [known, fresh] = windows_.try_emplace(key);
  if (fresh) {
    known->second.requested = true;
    options_.outbox_of(pair).announcements.push_back(
        {.kind = MessageTag::Kind::kWindowRequest, .pair = pair, .number = window});
  }
  return known->second;
}

// ---- Incoming -----------------------------------------------------------------------------------

absl::Status PeerPuts::OnSlice(const Slice& slice, std::optional<WindowMemory> window) {
  switch (slice.tag.kind) {
    case MessageTag::Kind::kPut:
    case MessageTag::Kind::kSignal:
      return OnPayload(slice, std::move(window));
    case MessageTag::Kind::kWindowRequest:
      return OnWindowRequest(slice.tag);
    case MessageTag::Kind::kWindowReply:
      return OnWindowReply(slice.tag);
    default:
      return ProtocolError(slice.tag, "unknown kind of slice");
  }
}

absl::Status PeerPuts::OnPayload(const Slice& slice, std::optional<WindowMemory> window) {
  const MessageTag& tag = slice.tag;
  if (!options_.may_receive(tag.pair) || tag.signal >= kSignals) {
    return ProtocolError(tag, "it is not for this host, or its signal number is invalid");
  }
  const WindowPort* const port = options_.port_of(tag.pair.destination);
  if (port == nullptr) return absl::OkStatus();  // The rank has left.
  if (slice.bytes > 0 && slice.landing != Landing::kDirect) {
    const absl::StatusOr<WindowMemory> memory = port->FindInWindow(PartOf(slice));
    MCCS_RETURN_IF_ERROR(copies_.place_error());
    if (memory.ok()) return ProtocolError(tag, "its payload did not arrive in its window");
    return absl::Status(
        memory.status().code(),
        absl::StrCat("put of rank ", tag.pair.source.value(), " to rank ",
                     tag.pair.destination.value(), ": ", std::string(memory.status().message())));
  }
  if (slice.bytes == 0) window.reset();  // sent again without its payload
  return copies_.Add(slice, std::move(window)) ? absl::OkStatus() : OnInWindow(slice);
}

absl::Status PeerPuts::OnInWindow(const Slice& slice) {
  if (slice.tag.kind != MessageTag::Kind::kSignal) return absl::OkStatus();
  return options_.signals->Count(slice.tag.pair, slice.tag.signal);
}

absl::StatusOr<bool> PeerPuts::PollCopies(int lane) {
  return copies_.Poll(lane, [this](const Slice& slice) {
    options_.release(slice.lane, slice.number);
    return OnInWindow(slice);
  });
}

std::optional<WindowMemory> PeerPuts::Landed(int lane, SliceNumber number) {
  std::optional<WindowMemory> window;
  const auto index = static_cast<size_t>(lane);
  if (index >= arriving_.size()) return window;
  std::deque<Arriving>& arriving = arriving_[index];
  while (!arriving.empty() && arriving.front().number <= number) {
    if (arriving.front().number == number && arriving.front().copied)
      window = std::move(arriving.front().window);
    arriving.pop_front();
  }
  return window;
}

std::optional<RegionSpan> PeerPuts::FindDestination(const Slice& slice) {
  if (!CarriesPayload(slice.tag) || slice.bytes == 0 || !options_.may_receive(slice.tag.pair) ||
      slice.lane != options_.home_of(slice.tag.pair)) {
    return std::nullopt;
  }
  const WindowPort* const port = options_.port_of(slice.tag.pair.destination);
  if (port == nullptr) return std::nullopt;
  absl::StatusOr<WindowMemory> window = port->FindInWindow(PartOf(slice));
  if (!window.ok() || window->memory.bytes < slice.bytes) return std::nullopt;
  Device* const device = options_.copies.device;
  bool copied = device != nullptr && !IsMapped(*device, window->memory);
  std::shared_ptr<const void> reached;
  if (copied && slice.receive != nullptr) {
    // While a NIC registers the window, puts are copied; and later ones to the same place, which
    // the copies would overwrite.
    absl::StatusOr<std::shared_ptr<const void>> reach =
        slice.receive->Reach(*window->memory.region);
    copied = !reach.ok() || CopiesInto(window->memory.Part(0, slice.bytes));
    if (!copied) reached = *std::move(reach);
  }
  if (copied && window->process == nullptr) return std::nullopt;
  const std::optional<RegionSpan> place =
      copied ? copies_.FindPlace(slice) : window->memory.Part(0, slice.bytes);
  if (!place.has_value()) return std::nullopt;
  const auto index = static_cast<size_t>(slice.lane);
  if (index >= arriving_.size()) arriving_.resize(index + 1);
  std::deque<Arriving>& arriving = arriving_[index];
  Arriving entry{.number = slice.number,
                 .rank = slice.tag.pair.destination,
                 .window = {.memory = window->memory.Part(0, slice.bytes),
                            .process = window->process,
                            .hold = std::move(window->hold)},
                 .window_number = slice.tag.number,
                 .copied = copied,
                 .reached = std::move(reached)};
  // It may be resent on another connection.
  const auto known = std::ranges::find(arriving, slice.number, &Arriving::number);
  if (known != arriving.end()) {
    *known = std::move(entry);
  } else {
    arriving.push_back(std::move(entry));
  }
  return place;
}

bool PeerPuts::CopiesInto(const RegionSpan& memory) const {
  return copies_.CopiesInto(memory) ||
         std::ranges::any_of(arriving_, [&](const std::deque<Arriving>& of_lane) {
           return std::ranges::any_of(of_lane, [&](const Arriving& arriving) {
             return arriving.copied && Overlap(arriving.window.memory, memory);
           });
         });
}

absl::Status PeerPuts::OnWindowRequest(const MessageTag& tag) {
  if (!options_.may_receive(tag.pair) ||
      window_requests_.size() + unposted_replies_ >= kMaxWindowRequests) {
    return ProtocolError(tag, "it requests a window that is not on this host, or too many windows");
  }
  if (!SendWindowReply(tag)) window_requests_.push_back(tag);
  return absl::OkStatus();
}

bool PeerPuts::SendWindowReplies() {
  return std::erase_if(window_requests_,
                       [&](const MessageTag& ask) { return SendWindowReply(ask); }) > 0;
}

// Also true if the rank has left: the peer learns of that by its departure.
bool PeerPuts::SendWindowReply(const MessageTag& ask) {
  const WindowPort* const port = options_.port_of(ask.pair.destination);
  if (port == nullptr) return true;
  const WindowView view = port->GetWindow(ask.number);
  if (view.state == WindowView::State::kNotYet) return false;
  MessageTag answer = ask;
  answer.kind = MessageTag::Kind::kWindowReply;
  answer.amount = view.state == WindowView::State::kOpen ? view.bytes : kGoneBytes;
  options_.outbox_of(ask.pair).announcements.push_back(answer);
  ++unposted_replies_;
  return true;
}

absl::Status PeerPuts::OnWindowReply(const MessageTag& tag) {
  const auto known = windows_.find(WindowKey{tag.pair.destination, tag.number});
  if (!options_.may_send(tag.pair) || known == windows_.end() || !known->second.requested) {
    return ProtocolError(tag, "unexpected reply about a window");
  }
  const bool gone = tag.amount == kGoneBytes;
  const std::vector<RankPair> waiting = std::exchange(known->second.waiting, {});
  known->second.requested = false;
  known->second.view = {.state = gone ? WindowView::State::kGone : WindowView::State::kOpen,
                        .bytes = gone ? 0 : tag.amount};
  ++answered_;
  for (const RankPair& pair : waiting) MCCS_RETURN_IF_ERROR(Start(outgoing_[pair]));
  return absl::OkStatus();
}

bool PeerPuts::WritesInto(Rank rank, uint64_t window) const {
  return copies_.WritesInto(rank, window) ||
         std::ranges::any_of(arriving_, [&](const std::deque<Arriving>& of_lane) {
           return std::ranges::any_of(of_lane, [&](const Arriving& arriving) {
             return arriving.rank == rank && (window == 0 || arriving.window_number == window);
           });
         });
}

// ---- Waiting calls ------------------------------------------------------------------------------

void PeerPuts::AddUnmatched(WaitingCalls& waiting) const {
  for (const auto& [pair, calls] : outgoing_) {
    if (!waiting.Look()) return;
    if (!calls.out && !calls.calls.empty()) waiting.Add(calls.calls.front());
  }
}

const OpenMessage* PeerPuts::WaitingFor(Rank rank) const {
  for (const RankPair& pair : PairsOf(outgoing_to_, rank)) {
    const std::deque<OpenMessage>& calls = outgoing_.at(pair).calls;
    if (!calls.empty()) return &calls.front();
  }
  return nullptr;
}

}  // namespace mccs
