#include "service/communicator/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "service/communicator/membership.h"
#include "topology/locality.h"
#include "topology/position.h"

namespace mccs {
namespace {

// Often enough that an init with a time-out of a second can name the missing ranks.
constexpr int64_t kReportEveryNs = 200 * kNsPerMs;

}  // namespace

wire::UniqueId Rendezvous::MakeId(const Endpoint& advertised) {
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.port = advertised.port;
  id.comm_id = random_.NextU64();
  random_.Fill(std::as_writable_bytes(std::span(id.secret)));
  std::strncpy(id.host, advertised.host.c_str(), sizeof(id.host) - 1);
  Adopt(id);
  return id;
}

void Rendezvous::Adopt(const wire::UniqueId& id) {
  Forget();
  Meeting& meeting = meetings_[CommId(id.comm_id)];
  if (meeting.born != 0) return;  // A second rank of this host brought the same id.
  meeting.born = ++births_;
  meeting.guessable = id.guessable != 0;
  std::copy(std::begin(id.secret), std::end(id.secret), meeting.secret.begin());
}

// Ids cost a few hundred bytes each; a tenant that makes them without end must not fill the memory.
void Rendezvous::Forget() {
  if (meetings_.size() < kMaxMeetings) return;
  auto oldest = meetings_.end();
  for (auto it = meetings_.begin(); it != meetings_.end(); ++it) {
    if (!it->second.guests.empty()) continue;
    if (oldest == meetings_.end() || it->second.born < oldest->second.born) oldest = it;
  }
  if (oldest != meetings_.end()) meetings_.erase(oldest);
}

std::optional<Secret> Rendezvous::SecretOf(CommId id) const {
  auto it = meetings_.find(id);
  if (it == meetings_.end()) return std::nullopt;
  return it->second.secret;
}

void Rendezvous::Accept(CommId id, std::unique_ptr<Connection> connection) {
  auto it = meetings_.find(id);
  if (it == meetings_.end()) return;  // Ended since the handshake; the closed stream says so.
  it->second.guests.emplace_back(std::make_unique<PeerLink>(std::move(connection)));
}

bool Rendezvous::Poll() {
  bool moved = false;
  for (auto it = meetings_.begin(); it != meetings_.end();) {
    moved |= PollMeeting(it->first, it->second);
    if (!it->second.over) {
      ++it;
      continue;
    }
    for (Guest& guest : it->second.guests) farewells_.push_back(std::move(guest.link));
    it = meetings_.erase(it);
  }
  // The other end closes once it has read; until then the last message may still be on its way.
  std::erase_if(farewells_, [&](const std::unique_ptr<PeerLink>& link) {
    moved |= link->Poll();
    return !link->Receive().ok();
  });
  return moved;
}

MonotonicNs Rendezvous::NextDeadline() const {
  MonotonicNs next = std::numeric_limits<MonotonicNs>::max();
  for (const auto& [id, meeting] : meetings_) {
    if (!meeting.guests.empty()) next = std::min(next, meeting.next_report);
  }
  return next;
}

bool Rendezvous::PollMeeting(CommId id, Meeting& meeting) {
  bool moved = false;
  for (size_t g = 0; g < meeting.guests.size() && !meeting.over; ++g) {
    Guest& guest = meeting.guests[g];
    moved |= guest.link->Poll();
    while (!meeting.over) {
      auto message = guest.link->Receive();
      if (!message.ok()) {
        Refuse(id, meeting,
               absl::UnavailableError(absl::StrCat(
                   "host ", guest.name.empty() ? ToString(guest.link->remote()) : guest.name,
                   " left while communicator ", FormatCommId(id), " was forming",
                   guest.ranks.empty() ? "" : absl::StrCat(" (rank ", guest.ranks.begin()->first, ")"))));
        return true;
      }
      if (!message->has_value()) break;
      moved = true;
      if ((*message)->has_join()) Take(id, meeting, guest, (*message)->join());
      if ((*message)->has_failed()) {  // It gives up: its own words say more than that it is gone.
        const peer::Failed& failed = (*message)->failed();
        Refuse(id, meeting,
               absl::Status(static_cast<absl::StatusCode>(failed.error_code()), failed.text()));
      }
    }
  }
  if (!meeting.over && !meeting.guests.empty() && clock_.Now() >= meeting.next_report) {
    TellMissing(meeting);
    moved = true;
  }
  return moved;
}

void Rendezvous::Take(CommId id, Meeting& meeting, Guest& guest, const peer::Join& join) {
  if (absl::Status status = CheckJoin(meeting, guest, join); !status.ok()) {
    Refuse(id, meeting, status);
    return;
  }
  meeting.ranks = join.ranks();
  guest.name = join.host();
  guest.tenant = join.tenant();
  guest.comm_name = join.name();
  guest.endpoint = {join.endpoint_host(), static_cast<uint16_t>(join.endpoint_port())};
  guest.position = join.position();
  guest.ranks[join.rank().rank()] = join.rank();
  if (++meeting.joined == meeting.ranks) SendRoster(id, meeting);
}

absl::Status Rendezvous::CheckJoin(const Meeting& meeting, const Guest& guest,
                                   const peer::Join& join) const {
  const int rank = join.rank().rank();
  const std::string who = absl::StrCat("rank ", rank, " (process ", join.rank().process(), " on host ",
                                       join.host(), ")");
  if (join.ranks() < 1 || join.ranks() > kMaxRanks || rank < 0 || rank >= join.ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, " does not fit a communicator of ", join.ranks(), " ranks"));
  }
  if (meeting.ranks != 0 && join.ranks() != meeting.ranks) {
    return absl::InvalidArgumentError(absl::StrCat(who, " says that the communicator has ", join.ranks(),
                                                   " ranks, others say ", meeting.ranks));
  }
  for (const Guest& other : meeting.guests) {
    if (other.ranks.empty()) continue;
    if (other.tenant != join.tenant()) {
      return absl::PermissionDeniedError(absl::StrCat(who, " belongs to tenant ", join.tenant(),
                                                      ", the communicator to tenant ", other.tenant));
    }
    for (const auto& [other_rank, info] : other.ranks) {
      if (other_rank == rank) {
        return absl::InvalidArgumentError(
            absl::StrCat("two processes claim rank ", rank, ": process ", info.process(), " on host ",
                         other.name, " and process ", join.rank().process(), " on host ", join.host()));
      }
      const bool same_gpu = &other == &guest && info.gpu_uuid() == join.rank().gpu_uuid();
      if (same_gpu && !(info.multi_rank_gpu() && join.rank().multi_rank_gpu())) {
        return absl::FailedPreconditionError(absl::StrCat(
            "Duplicate GPU detected: ranks ", other_rank, " and ", rank, " on host ", join.host(),
            " both use GPU ", join.rank().gpu_bus_id(), "; NCCL_MULTI_RANK_GPU_ENABLE=1 allows it"));
      }
    }
  }
  return absl::OkStatus();
}

void Rendezvous::TellMissing(Meeting& meeting) {
  meeting.next_report = clock_.Now() + kReportEveryNs;
  std::vector<bool> present(meeting.ranks, false);
  for (const Guest& guest : meeting.guests) {
    for (const auto& [rank, info] : guest.ranks) present[rank] = true;
  }
  peer::Message message;
  for (int rank = 0; rank < meeting.ranks; ++rank) {
    if (!present[rank]) message.mutable_waiting()->add_missing_ranks(rank);
  }
  if (!message.has_waiting()) return;
  for (Guest& guest : meeting.guests) guest.link->Send(message);
}

void Rendezvous::SendRoster(CommId id, Meeting& meeting) {
  std::erase_if(meeting.guests, [&](Guest& guest) {  // Connected, but brought no rank.
    return guest.ranks.empty();
  });
  std::vector<Position> positions;
  for (const Guest& guest : meeting.guests) {
    positions.push_back({.pod = guest.position.pod(), .rack = guest.position.rack(), .host = guest.name});
  }
  peer::Message message;
  peer::Roster* roster = message.mutable_roster();
  // A guessable id may be used again while the first communicator lives: each gets a name of its own.
  roster->set_comm_id(meeting.guessable ? random_.NextU64() : id.value());
  roster->set_tenant(meeting.guests.front().tenant);
  roster->set_name(meeting.guests.front().comm_name);
  for (HostIndex index : LocalityOrder(positions)) {
    const Guest& guest = meeting.guests[index.value()];
    peer::HostInfo* host = roster->add_hosts();
    host->set_name(guest.name);
    host->set_endpoint_host(guest.endpoint.host);
    host->set_endpoint_port(guest.endpoint.port);
    *host->mutable_position() = guest.position;
    for (const auto& [rank, info] : guest.ranks) *host->add_ranks() = info;
  }
  log_.Info("communicator ", FormatCommId(CommId(roster->comm_id())), ": all ", meeting.ranks,
            " ranks have joined from ", meeting.guests.size(), " hosts");
  for (Guest& guest : meeting.guests) guest.link->Send(message);
  meeting.over = true;
}

void Rendezvous::Refuse(CommId id, Meeting& meeting, const absl::Status& why) {
  log_.Warning("communicator ", FormatCommId(id), " cannot form: ", std::string(why.message()));
  peer::Message message;
  message.mutable_refused()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_refused()->set_text(std::string(why.message()));
  for (Guest& guest : meeting.guests) guest.link->Send(message);
  meeting.over = true;
}

}  // namespace mccs
