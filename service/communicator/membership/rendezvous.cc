#include "service/communicator/membership/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "algorithms/plan.h"
#include "service/communicator/links/star_protocol.h"
#include "service/communicator/membership/joining.h"
#include "service/communicator/membership/membership.h"
#include "topology/position.h"

namespace mccs {
namespace {

// Short enough that an init with a timeout of 1 s can name the missing ranks.
constexpr int64_t kProgressEveryNs = 200 * kNsPerMs;

peer::Message RejectedMessage(const absl::Status& why) {
  peer::Message message;
  message.mutable_rejected()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_rejected()->set_message(std::string(why.message()));
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
  Register(id, tenant);
  return id;
}

void Rendezvous::Register(const wire::UniqueId& id, const std::string& tenant) {
  std::unique_ptr<Meeting>& place = meetings_[CommId(id.comm_id)];
  if (place != nullptr) return;  // A second rank of this host joined with the same id.
  place = std::make_unique<Meeting>();
  place->guessable = id.guessable != 0;
  place->creator = tenant;
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
  if (meeting.joining_hosts.size() >= kMaxHostsPerMeeting) return;
  if (active_meetings_.insert(id).second) {
    auto unused = unused_.find(meeting.creator);
    unused->second.erase(meeting.unused);
    if (unused->second.empty()) unused_.erase(unused);
  }
  meeting.joining_hosts.emplace_back(
      std::make_unique<PeerLink>(std::move(connection), kMaxJoinMessageBytes));
}

bool Rendezvous::Poll() {
  bool moved = false;
  for (auto it = active_meetings_.begin(); it != active_meetings_.end();) {
    Meeting& meeting = *meetings_.at(*it);
    moved |= PollMeeting(*it, meeting);
    if (!meeting.over) {
      ++it;
      continue;
    }
    for (JoiningHost& joining_host : meeting.joining_hosts) {
      closing_links_.push_back(
          {std::move(joining_host.link), clock_.Now() + kMeetingCloseTimeoutNs});
    }
    meetings_.erase(*it);
    it = active_meetings_.erase(it);
  }
  return PollClosingLinks() || moved;
}

// The peer closes the link when it has read the last message, which may be in flight until then.
bool Rendezvous::PollClosingLinks() {
  bool moved = false;
  std::erase_if(closing_links_, [&](const ClosingLink& closing) {
    moved |= closing.link->Poll();
    return !closing.link->Receive().ok() || clock_.Now() >= closing.until;
  });
  return moved;
}

MonotonicNs Rendezvous::NextDeadline() const {
  MonotonicNs next = std::numeric_limits<MonotonicNs>::max();
  for (CommId id : active_meetings_) {
    const Meeting& meeting = *meetings_.at(id);
    if (meeting.joined.size() != meeting.reported_joined)
      next = std::min(next, meeting.next_report);
  }
  for (const ClosingLink& closing : closing_links_) next = std::min(next, closing.until);
  return next;
}

bool Rendezvous::PollMeeting(CommId id, Meeting& meeting) {
  bool moved = false;
  for (auto joining_host = meeting.joining_hosts.begin();
       joining_host != meeting.joining_hosts.end() && !meeting.over;) {
    moved |= joining_host->link->Poll();
    bool gone = false;
    for (int i = 0; i < kPeerMessagesPerTurn && !meeting.over && joining_host->link != nullptr;
         ++i) {
      auto message = joining_host->link->Receive();
      gone = !message.ok();
      if (gone || !message->has_value()) break;
      moved = true;
      if ((*message)->has_join()) {
        HandleJoin(id, meeting, *joining_host, (*message)->join());
      } else if (joining_host->ranks.empty()) {
        gone = true;  // It may not send anything else before it has joined.
        break;
      } else if ((*message)->has_failed()) {
        // It withdraws: its own message says more than a broken link.
        RejectMeeting(
            id, meeting,
            StatusFromPeer((*message)->failed().error_code(), (*message)->failed().message()));
      } else {
        RejectMeeting(id, meeting,
                      Rejected(joining_host->name, **message,
                               absl::DataLossError("not legal from a joining host")));
      }
    }
    gone |= joining_host->link == nullptr;
    if (gone && joining_host->ranks.empty()) {  // It registered no rank, so nothing is lost.
      joining_host = meeting.joining_hosts.erase(joining_host);
      continue;
    }
    if (gone) {
      RejectMeeting(id, meeting,
                    absl::UnavailableError(absl::StrCat(
                        "host ", joining_host->name, " left while communicator ", FormatCommId(id),
                        " was forming (rank ", joining_host->ranks.begin()->first, ")")));
      return true;
    }
    ++joining_host;
  }
  if (!meeting.over && meeting.joined.size() != meeting.reported_joined &&
      clock_.Now() >= meeting.next_report) {
    SendMissing(meeting);
    moved = true;
  }
  return moved;
}

void Rendezvous::HandleJoin(CommId id, Meeting& meeting, JoiningHost& joining_host,
                            const peer::Join& join) {
  if (meeting.guessable && join.tenant() != meeting.creator && joining_host.ranks.empty()) {
    RejectHost(joining_host, absl::PermissionDeniedError(
                                 absl::StrCat("NCCL_COMM_ID of communicator ", FormatCommId(id),
                                              " belongs to a job of tenant ", meeting.creator,
                                              ": use another address or port")));
    return;
  }
  if (absl::Status status = CheckJoin(meeting, joining_host, join); !status.ok()) {
    RejectMeeting(id, meeting, status);
    return;
  }
  if (meeting.joined.empty()) {
    meeting.ranks = join.ranks();
    meeting.tenant = join.tenant();
    meeting.comm_name = join.name();
  }
  joining_host.name = join.host();
  joining_host.endpoint = {join.endpoint_host(), static_cast<uint16_t>(join.endpoint_port())};
  joining_host.position = join.position();
  const int rank = join.rank().rank();
  joining_host.ranks[rank] = join;
  meeting.joined[rank] = &joining_host;
  if (meeting.joined.size() == static_cast<size_t>(meeting.ranks)) SendRoster(id, meeting);
}

absl::Status Rendezvous::CheckJoin(const Meeting& meeting, const JoiningHost& joining_host,
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
  if (joining_host.ranks.size() >= kMaxLocalRanks) {
    return absl::InvalidArgumentError(absl::StrCat(who, " exceeds the limit: ", kMaxLocalRanks,
                                                   " ranks of one communicator per host"));
  }
  for (const auto& [other_rank, other] : joining_host.ranks) {
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
void Rendezvous::SendMissing(Meeting& meeting) {
  meeting.next_report = clock_.Now() + kProgressEveryNs;
  meeting.reported_joined = meeting.joined.size();
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
  for (JoiningHost& joining_host : meeting.joining_hosts) joining_host.link->Send(message);
}

void Rendezvous::SendRoster(CommId id, Meeting& meeting) {
  std::erase_if(meeting.joining_hosts,
                [&](JoiningHost& joining_host) {  // Connected, but without a rank.
                  return joining_host.ranks.empty();
                });
  std::vector<Position> positions;
  std::vector<const JoiningHost*> joining_hosts;
  for (const JoiningHost& joining_host : meeting.joining_hosts) {
    joining_hosts.push_back(&joining_host);
    positions.push_back({.pod = joining_host.position.pod(),
                         .rack = joining_host.position.rack(),
                         .host = joining_host.name});
  }
  peer::Message message;
  peer::Roster* roster = message.mutable_roster();
  // A guessable id may be reused while the first communicator still exists, so each gets a unique
  // id.
  roster->set_comm_id(meeting.guessable ? random_.NextU64() : id.value());
  roster->set_tenant(meeting.tenant);
  roster->set_name(meeting.comm_name);
  for (HostIndex index : LocalityOrder(positions)) {
    const JoiningHost& joining_host = *joining_hosts[static_cast<size_t>(index.value())];
    peer::HostInfo* host = roster->add_hosts();
    host->set_name(joining_host.name);
    host->set_endpoint_host(joining_host.endpoint.host);
    host->set_endpoint_port(joining_host.endpoint.port);
    *host->mutable_position() = joining_host.position;
    for (const auto& [rank, join] : joining_host.ranks) *host->add_ranks() = join.rank();
  }
  log_.Info("communicator ", FormatCommId(CommId(roster->comm_id())), ": all ", meeting.ranks,
            " ranks have joined from ", meeting.joining_hosts.size(), " hosts");
  for (JoiningHost& joining_host : meeting.joining_hosts) joining_host.link->Send(message);
  meeting.over = true;
}

void Rendezvous::RejectHost(JoiningHost& joining_host, const absl::Status& why) {
  joining_host.link->Send(RejectedMessage(why));
  closing_links_.push_back({std::move(joining_host.link), clock_.Now() + kMeetingCloseTimeoutNs});
}

void Rendezvous::RejectMeeting(CommId id, Meeting& meeting, const absl::Status& why) {
  log_.Warning("communicator ", FormatCommId(id), " cannot form: ", std::string(why.message()));
  const peer::Message message = RejectedMessage(why);
  for (JoiningHost& joining_host : meeting.joining_hosts) joining_host.link->Send(message);
  meeting.over = true;
}

}  // namespace mccs
