#include "service/communicator/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "algorithms/plan.h"
#include "service/communicator/joining.h"
#include "service/communicator/membership.h"
#include "service/communicator/star_turns.h"
#include "topology/locality.h"
#include "topology/position.h"

namespace mccs {
namespace {

// Short enough that an init with a timeout of 1 s can name the missing ranks.
constexpr int64_t kProgressEveryNs = 200 * kNsPerMs;

peer::Message RefusedMessage(const absl::Status& why) {
  peer::Message message;
  message.mutable_refused()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_refused()->set_text(std::string(why.message()));
  return message;
}

}  // namespace

wire::UniqueId Rendezvous::MakeId(const Endpoint& advertised, const std::string& tenant) {
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.port = advertised.port;
  id.comm_id = random_.NextU64();
  random_.Fill(std::as_writable_bytes(std::span(id.secret)));
  std::strncpy(id.host, advertised.host.c_str(), sizeof(id.host) - 1);
  Adopt(id, tenant);
  return id;
}

void Rendezvous::Adopt(const wire::UniqueId& id, const std::string& tenant) {
  std::unique_ptr<Meeting>& place = meetings_[CommId(id.comm_id)];
  if (place != nullptr) return;  // A second rank of this host joined with the same id.
  place = std::make_unique<Meeting>();
  place->guessable = id.guessable != 0;
  place->maker = tenant;
  std::copy(std::begin(id.secret), std::end(id.secret), place->secret.begin());
  std::list<CommId>& unused = unused_[tenant];
  place->unused = unused.insert(unused.end(), CommId(id.comm_id));
  // An id costs a few hundred bytes; a tenant that creates too many loses its oldest ones.
  if (unused.size() <= kMaxUnusedIdsPerTenant) return;
  meetings_.erase(unused.front());
  unused.pop_front();
}

std::optional<Secret> Rendezvous::SecretOf(CommId id) const {
  auto it = meetings_.find(id);
  if (it == meetings_.end()) return std::nullopt;
  return it->second->secret;
}

void Rendezvous::Accept(CommId id, std::unique_ptr<Connection> connection) {
  auto it = meetings_.find(id);
  if (it == meetings_.end())
    return;  // It ended after the handshake; closing the stream notifies the peer.
  Meeting& meeting = *it->second;
  if (meeting.guests.size() >= kMaxGuests) return;
  if (gathering_.insert(id).second) {
    auto unused = unused_.find(meeting.maker);
    unused->second.erase(meeting.unused);
    if (unused->second.empty()) unused_.erase(unused);
  }
  meeting.guests.emplace_back(
      std::make_unique<PeerLink>(std::move(connection), kMaxGuestMessageBytes));
}

bool Rendezvous::Poll() {
  bool moved = false;
  for (auto it = gathering_.begin(); it != gathering_.end();) {
    Meeting& meeting = *meetings_.at(*it);
    moved |= PollMeeting(*it, meeting);
    if (!meeting.over) {
      ++it;
      continue;
    }
    for (Guest& guest : meeting.guests) {
      farewells_.push_back({std::move(guest.link), clock_.Now() + kMeetingFarewellNs});
    }
    meetings_.erase(*it);
    it = gathering_.erase(it);
  }
  return PollFarewells() || moved;
}

// The peer closes the link when it has read the last message, which may be in flight until then.
bool Rendezvous::PollFarewells() {
  bool moved = false;
  std::erase_if(farewells_, [&](const Farewell& farewell) {
    moved |= farewell.link->Poll();
    return !farewell.link->Receive().ok() || clock_.Now() >= farewell.until;
  });
  return moved;
}

MonotonicNs Rendezvous::NextDeadline() const {
  MonotonicNs next = std::numeric_limits<MonotonicNs>::max();
  for (CommId id : gathering_) {
    const Meeting& meeting = *meetings_.at(id);
    if (meeting.joined.size() != meeting.told_joined) next = std::min(next, meeting.next_report);
  }
  for (const Farewell& farewell : farewells_) next = std::min(next, farewell.until);
  return next;
}

bool Rendezvous::PollMeeting(CommId id, Meeting& meeting) {
  bool moved = false;
  for (auto guest = meeting.guests.begin(); guest != meeting.guests.end() && !meeting.over;) {
    moved |= guest->link->Poll();
    bool gone = false;
    for (int i = 0; i < kPeerMessagesPerTurn && !meeting.over && guest->link != nullptr; ++i) {
      auto message = guest->link->Receive();
      gone = !message.ok();
      if (gone || !message->has_value()) break;
      moved = true;
      if ((*message)->has_join()) {
        Take(id, meeting, *guest, (*message)->join());
      } else if (guest->ranks.empty()) {
        gone = true;  // It may not send anything else before it has joined.
        break;
      } else if ((*message)->has_failed()) {
        // It withdraws: its own message says more than a broken link.
        Refuse(id, meeting,
               StatusFromPeer((*message)->failed().error_code(), (*message)->failed().text()));
      } else {
        Refuse(
            id, meeting,
            Rejected(guest->name, **message, absl::DataLossError("not legal from a joining host")));
      }
    }
    gone |= guest->link == nullptr;
    if (gone && guest->ranks.empty()) {  // It registered no rank, so nothing is lost.
      guest = meeting.guests.erase(guest);
      continue;
    }
    if (gone) {
      Refuse(id, meeting,
             absl::UnavailableError(absl::StrCat("host ", guest->name, " left while communicator ",
                                                 FormatCommId(id), " was forming (rank ",
                                                 guest->ranks.begin()->first, ")")));
      return true;
    }
    ++guest;
  }
  if (!meeting.over && meeting.joined.size() != meeting.told_joined &&
      clock_.Now() >= meeting.next_report) {
    TellMissing(meeting);
    moved = true;
  }
  return moved;
}

void Rendezvous::Take(CommId id, Meeting& meeting, Guest& guest, const peer::Join& join) {
  if (meeting.guessable && join.tenant() != meeting.maker && guest.ranks.empty()) {
    TurnAway(guest,
             absl::PermissionDeniedError(absl::StrCat(
                 "NCCL_COMM_ID of communicator ", FormatCommId(id), " belongs to a job of tenant ",
                 meeting.maker, ": use another address or port")));
    return;
  }
  if (absl::Status status = CheckJoin(meeting, guest, join); !status.ok()) {
    Refuse(id, meeting, status);
    return;
  }
  if (meeting.joined.empty()) {
    meeting.ranks = join.ranks();
    meeting.tenant = join.tenant();
    meeting.comm_name = join.name();
  }
  guest.name = join.host();
  guest.endpoint = {join.endpoint_host(), static_cast<uint16_t>(join.endpoint_port())};
  guest.position = join.position();
  const int rank = join.rank().rank();
  guest.ranks[rank] = join;
  meeting.joined[rank] = &guest;
  if (meeting.joined.size() == static_cast<size_t>(meeting.ranks)) SendRoster(id, meeting);
}

absl::Status Rendezvous::CheckJoin(const Meeting& meeting, const Guest& guest,
                                   const peer::Join& join) const {
  const cluster::Member& member = join.rank();
  const int rank = member.rank();
  if (join.ByteSizeLong() > kMaxJoinBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " sends too much data about itself: ", join.ByteSizeLong(),
                     " bytes, at most ", kMaxJoinBytes, " are allowed"));
  }
  const std::string who =
      absl::StrCat("rank ", rank, " (process ", member.process(), " on host ", join.host(), ")");
  if (join.ranks() < 1 || join.ranks() > kMaxRanks || rank < 0 || rank >= join.ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, " is out of range for a communicator of ", join.ranks(), " ranks"));
  }
  if (!meeting.joined.empty() && join.ranks() != meeting.ranks) {
    return absl::InvalidArgumentError(absl::StrCat(who, " joins with ", join.ranks(),
                                                   " ranks, other ranks with ", meeting.ranks));
  }
  if (!meeting.joined.empty() && join.tenant() != meeting.tenant) {
    return absl::PermissionDeniedError(absl::StrCat(who, " belongs to tenant ", join.tenant(),
                                                    ", the communicator to tenant ",
                                                    meeting.tenant));
  }
  if (auto other = meeting.joined.find(rank); other != meeting.joined.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "two processes claim rank ", rank, ": process ",
        other->second->ranks.at(rank).rank().process(), " on host ", other->second->name,
        " and process ", member.process(), " on host ", join.host()));
  }
  if (guest.ranks.size() >= kMaxLocalRanks) {
    return absl::InvalidArgumentError(absl::StrCat(who, " exceeds the limit: ", kMaxLocalRanks,
                                                   " ranks of one communicator per host"));
  }
  for (const auto& [other_rank, other] : guest.ranks) {
    const bool same_gpu = other.gpu().uuid() == join.gpu().uuid();
    if (same_gpu && !(other.gpu().shared() && join.gpu().shared())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "Duplicate GPU detected: ranks ", other_rank, " and ", rank, " on host ", join.host(),
          " both use GPU ", member.gpu(), "; NCCL_MULTI_RANK_GPU_ENABLE=1 allows it"));
    }
  }
  return absl::OkStatus();
}

// Names only a few ranks: the size is the tenant's claim and may be a million.
void Rendezvous::TellMissing(Meeting& meeting) {
  meeting.next_report = clock_.Now() + kProgressEveryNs;
  meeting.told_joined = meeting.joined.size();
  peer::Message message;
  peer::Waiting* waiting = message.mutable_waiting();
  for (int rank = 0; rank < meeting.ranks; ++rank) {
    if (meeting.joined.contains(rank)) continue;
    if (waiting->missing_ranks_size() == static_cast<int>(kMaxNamedMissingRanks)) break;
    waiting->add_missing_ranks(rank);
  }
  waiting->set_more(
      static_cast<uint32_t>(static_cast<size_t>(meeting.ranks) - meeting.joined.size()) -
      static_cast<uint32_t>(waiting->missing_ranks_size()));
  for (Guest& guest : meeting.guests) guest.link->Send(message);
}

void Rendezvous::SendRoster(CommId id, Meeting& meeting) {
  std::erase_if(meeting.guests, [&](Guest& guest) {  // Connected, but without a rank.
    return guest.ranks.empty();
  });
  std::vector<Position> positions;
  std::vector<const Guest*> guests;
  for (const Guest& guest : meeting.guests) {
    guests.push_back(&guest);
    positions.push_back(
        {.pod = guest.position.pod(), .rack = guest.position.rack(), .host = guest.name});
  }
  peer::Message message;
  peer::Roster* roster = message.mutable_roster();
  // A guessable id may be reused while the first communicator still exists, so each gets a unique
  // id.
  roster->set_comm_id(meeting.guessable ? random_.NextU64() : id.value());
  roster->set_tenant(meeting.tenant);
  roster->set_name(meeting.comm_name);
  for (HostIndex index : LocalityOrder(positions)) {
    const Guest& guest = *guests[static_cast<size_t>(index.value())];
    peer::HostInfo* host = roster->add_hosts();
    host->set_name(guest.name);
    host->set_endpoint_host(guest.endpoint.host);
    host->set_endpoint_port(guest.endpoint.port);
    *host->mutable_position() = guest.position;
    for (const auto& [rank, join] : guest.ranks) *host->add_ranks() = join.rank();
  }
  log_.Info("communicator ", FormatCommId(CommId(roster->comm_id())), ": all ", meeting.ranks,
            " ranks have joined from ", meeting.guests.size(), " hosts");
  for (Guest& guest : meeting.guests) guest.link->Send(message);
  meeting.over = true;
}

void Rendezvous::TurnAway(Guest& guest, const absl::Status& why) {
  guest.link->Send(RefusedMessage(why));
  farewells_.push_back({std::move(guest.link), clock_.Now() + kMeetingFarewellNs});
}

void Rendezvous::Refuse(CommId id, Meeting& meeting, const absl::Status& why) {
  log_.Warning("communicator ", FormatCommId(id), " cannot form: ", std::string(why.message()));
  const peer::Message message = RefusedMessage(why);
  for (Guest& guest : meeting.guests) guest.link->Send(message);
  meeting.over = true;
}

}  // namespace mccs
