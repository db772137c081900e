#include "service/communicator/membership/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "algorithms/plan.h"
#include "base/status_macros.h"
#include "service/communicator/links/star_protocol.h"
#include "service/communicator/membership/joining.h"
#include "service/communicator/membership/membership.h"
#include "service/communicator/membership/tree_relay.h"
#include "service/transport/memory_connection.h"
#include "topology/position.h"

namespace mccs {
namespace {

// Short enough that an init with a timeout of 1 s can name the missing ranks.
constexpr int64_t kProgressEveryNs = 200 * kNsPerMs;

// Ranks from the first missing one on that a report may name.
constexpr int kMaxSearchedRanks = 4096;

peer::Message RejectedMessage(const absl::Status& why) {
  peer::Message message;
  message.mutable_rejected()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_rejected()->set_message(std::string(why.message()));
  return message;
}

}  // namespace

absl::StatusOr<wire::UniqueId> Rendezvous::MakeId(const Endpoint& advertised,
                                                  const std::string& tenant,
                                                  const std::shared_ptr<TenantResources>& budget) {
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.port = advertised.port;
  id.comm_id = random_.NextU64();
  random_.Fill(std::as_writable_bytes(std::span(id.secret)));
  std::strncpy(id.host, advertised.host.c_str(), sizeof(id.host) - 1);
  MCCS_RETURN_IF_ERROR(Register(id, tenant, budget));
  return id;
}

absl::Status Rendezvous::Register(const wire::UniqueId& id, const std::string& tenant,
                                  const std::shared_ptr<TenantResources>& budget) {
  if (pending_rendezvous_.contains(CommId(id.comm_id)))
    return absl::OkStatus();  // A second rank of this host joined with the same id.
  const std::string& payer = budget != nullptr ? budget->name() : tenant;
  BudgetShare share(budget, Resource::kUniqueIds);
  if (absl::Status taken = share.Take(); !taken.ok()) {
    const auto unused = unused_.find(payer);
    if (unused == unused_.end()) return taken;
    share = std::move(pending_rendezvous_.at(unused->second.front())->unused_share);
    DropOldestUnused(payer);
  }
  auto rendezvous = std::make_unique<PendingRendezvous>(turns_, CommId(id.comm_id), tenant, payer,
                                                        std::move(share));
  rendezvous->guessable = id.guessable != 0;
  rendezvous->budget = budget;
  std::copy(std::begin(id.secret), std::end(id.secret), rendezvous->secret.begin());
  std::list<CommId>& unused = unused_[payer];
  rendezvous->unused = unused.insert(unused.end(), CommId(id.comm_id));
  pending_rendezvous_[CommId(id.comm_id)] = std::move(rendezvous);
  if (unused.size() > kMaxUnusedIdsPerTenant) DropOldestUnused(payer);
  return absl::OkStatus();
}

void Rendezvous::DropOldestUnused(const std::string& payer) {
  const CommId oldest = unused_.at(payer).front();
  LeaveUnused(*pending_rendezvous_.at(oldest));
  pending_rendezvous_.erase(oldest);
  ++ended_;
}

void Rendezvous::LeaveUnused(PendingRendezvous& rendezvous) {
  const auto unused = unused_.find(rendezvous.counted_as);
  unused->second.erase(rendezvous.unused);
  if (unused->second.empty()) unused_.erase(unused);
  rendezvous.unused_share.ReturnAll();
}

std::optional<Secret> Rendezvous::SecretOf(CommId id) const {
  auto it = pending_rendezvous_.find(id);
  if (it == pending_rendezvous_.end()) return std::nullopt;
  return it->second->secret;
}

void Rendezvous::Accept(CommId id, std::unique_ptr<Connection> connection,
                        const std::string& host) {
  auto it = pending_rendezvous_.find(id);
  if (it == pending_rendezvous_.end())
    return;  // It ended after the handshake; closing the stream notifies the peer.
  PendingRendezvous& rendezvous = *it->second;
  if (!Admit(rendezvous)) return;
  BudgetShare share(rendezvous.budget, Resource::kDescriptors);
  if (const absl::Status taken = share.Take(); !taken.ok()) {
    // Others may guess a guessable id, and must not end its rendezvous.
    if (!rendezvous.guessable) RejectRendezvous(id, rendezvous, taken);
    rendezvous.Wake();
    return;
  }
  AddHost(rendezvous, std::move(connection), host).link->Keep(std::move(share));
}

std::unique_ptr<Connection> Rendezvous::ConnectOwn(CommId id, const Secret& secret,
                                                   const Endpoint& at) {
  auto it = pending_rendezvous_.find(id);
  if (it == pending_rendezvous_.end() || it->second->secret != secret) return nullptr;
  auto [member, own] = ConnectInMemory(at);
  if (Admit(*it->second)) AddHost(*it->second, std::move(own), "");
  return std::move(member);
}

bool Rendezvous::Admit(PendingRendezvous& rendezvous) {
  if (rendezvous.joining_hosts.size() >= kMaxHostsPerRendezvous) return false;
  if (std::exchange(rendezvous.active, true)) return true;
  LeaveUnused(rendezvous);
  return true;
}

Rendezvous::JoiningHost& Rendezvous::AddHost(PendingRendezvous& rendezvous,
                                             std::unique_ptr<Connection> connection,
                                             const std::string& host) {
  JoiningHost& joining_host = rendezvous.joining_hosts.emplace_back(
      rendezvous.ready, std::make_unique<PeerLink>(std::move(connection), kMaxJoinMessageBytes),
      host);
  joining_host.place = std::prev(rendezvous.joining_hosts.end());
  joining_host.link->SetWaker(&joining_host);
  joining_host.Wake();
  return joining_host;
}

// ---- Turns --------------------------------------------------------------------------------------

bool Rendezvous::Poll() {
  const bool moved = PollRanks();
  return PollClosingLinks() || moved;
}

MonotonicNs Rendezvous::NextDeadline() const {
  if (turns_.HasWork() || closing_turns_.HasWork()) return 0;
  return std::min(turns_.NextDeadline(), closing_turns_.NextDeadline());
}

bool Rendezvous::PollRanks() {
  const MonotonicNs due = turns_.NextDeadline();
  if (!turns_.HasWork() && (due == kNever || clock_.Now() < due)) return false;
  bool moved = false;
  ServeTurns(turns_, clock_, kCostPerTurn, [&](TurnQueue::Participant& participant) {
    auto& rendezvous = static_cast<PendingRendezvous&>(participant);
    spent_ = kTurnCost;
    moved |= PollRendezvous(rendezvous.id, rendezvous);
    if (rendezvous.over) SpendForAll(rendezvous);
    TurnQueue::Charge(rendezvous, spent_);
    if (rendezvous.over) {
      End(rendezvous);
    } else if (rendezvous.ready.size() > 0) {
      rendezvous.Wake();
    } else if (rendezvous.joined.size() != rendezvous.reported_joined) {
      turns_.SleepUntil(rendezvous, rendezvous.next_report);
    }
    return spent_;
  });
  return moved || turns_.HasWork();
}

void Rendezvous::End(PendingRendezvous& rendezvous) {
  for (JoiningHost& joining_host : rendezvous.joining_hosts) {
    if (joining_host.link == nullptr) continue;
    CloseLater(rendezvous.counted_as, std::move(joining_host.link),
               joining_host.notified ? rendezvous.roster : nullptr);
  }
  pending_rendezvous_.erase(rendezvous.id);
  ++ended_;
}

// ---- Closing links ------------------------------------------------------------------------------

// The peer closes the link when it has the roster or another last message, which may be in flight
// until then.
void Rendezvous::CloseLater(const std::string& tenant, std::unique_ptr<PeerLink> link,
                            PeerFrame roster) {
  ClosingLink& closing = closing_links_.emplace_back(closing_turns_, tenant, std::move(link));
  closing.place = std::prev(closing_links_.end());
  closing.until = clock_.Now() + kRendezvousCloseTimeoutNs;
  closing.roster = std::move(roster);
  closing.Wake();
}

bool Rendezvous::PollClosingLinks() {
  if (closing_links_.empty() && !closing_turns_.in_round()) return false;
  bool moved = false;
  ServeTurns(closing_turns_, clock_, kCostPerTurn, [&](TurnQueue::Participant& participant) {
    auto& closing = static_cast<ClosingLink&>(participant);
    const uint64_t before = closing.link->moved_bytes();
    const bool done = PollClosingLink(closing);
    const auto bytes = static_cast<int64_t>(closing.link->moved_bytes() - before);
    TurnQueue::Charge(closing, kLinkCost + bytes);
    moved |= done || bytes > 0;
    if (done) {
      RemoveClosingLink(closing);
    } else if (closing.link->has_work()) {
      closing.Wake();
    } else {
      closing_turns_.SleepUntil(closing, closing.until);
    }
    return kLinkCost + bytes;
  });
  return moved || closing_turns_.HasWork();
}

bool Rendezvous::PollClosingLink(ClosingLink& closing) {
  closing.link->Poll();
  ReadClosingLink(closing);
  if (closing.state == ClosingLink::State::kSending && closing.link->flushed()) {
    closing.state = ClosingLink::State::kSent;
    --requests_[closing.tenant].sending;
    SendRequestedRosters(closing.tenant);
  }
  return !closing.link->status().ok() || clock_.Now() >= closing.until;
}

void Rendezvous::ReadClosingLink(ClosingLink& closing) {
  for (int i = 0; i < kPeerMessagesPerTurn; ++i) {
    const auto message = closing.link->Receive();
    if (!message.ok() || !message->has_value()) return;
    const bool requests = (*message)->has_roster_request() && closing.roster != nullptr &&
                          closing.state == ClosingLink::State::kIdle;
    if (!requests) continue;  // It was sent before the peer knew of the end.
    closing.state = ClosingLink::State::kRequested;
    closing.until = clock_.Now() + kRosterRequestTimeoutNs;
    std::list<ClosingLink*>& waiting = requests_[closing.tenant].waiting;
    closing.request = waiting.insert(waiting.end(), &closing);
    SendRequestedRosters(closing.tenant);
  }
  closing.Wake();
}

void Rendezvous::RemoveClosingLink(ClosingLink& closing) {
  const std::string tenant = closing.tenant;
  if (closing.state == ClosingLink::State::kRequested) {
    requests_[tenant].waiting.erase(closing.request);
  } else if (closing.state == ClosingLink::State::kSending) {
    --requests_[tenant].sending;
  }
  closing_links_.erase(closing.place);
  SendRequestedRosters(tenant);
}

void Rendezvous::SendRequestedRosters(const std::string& tenant) {
  const auto known = requests_.find(tenant);
  if (known == requests_.end()) return;
  Requests& requests = known->second;
  while (!requests.waiting.empty() && requests.sending < kMaxRostersAtOnce) {
    ClosingLink& next = *requests.waiting.front();
    requests.waiting.pop_front();
    next.link->Queue(std::exchange(next.roster, nullptr));
    next.state = ClosingLink::State::kSending;
    next.until = clock_.Now() + kRendezvousCloseTimeoutNs;
    next.Wake();
    ++requests.sending;
  }
  if (requests.waiting.empty() && requests.sending == 0) requests_.erase(known);
}

// ---- Ranks --------------------------------------------------------------------------------------

bool Rendezvous::PollRendezvous(CommId id, PendingRendezvous& rendezvous) {
  bool moved = false;
  for (size_t listed = rendezvous.ready.size(); listed > 0 && !rendezvous.over; --listed) {
    if (spent_ >= kCostPerTurn) break;
    auto& joining_host = static_cast<JoiningHost&>(*rendezvous.ready.Next());
    if (!PollHost(id, rendezvous, joining_host, moved)) continue;
    if (joining_host.ranks.empty()) {  // It registered no rank, so nothing is lost.
      rendezvous.joining_hosts.erase(joining_host.place);
      continue;
    }
    if (rendezvous.over) break;
    RejectRendezvous(id, rendezvous,
                     absl::UnavailableError(absl::StrCat(
                         "host ", joining_host.name, " (rank ", joining_host.ranks.begin()->first,
                         ") disconnected while communicator ", FormatCommId(id),
                         " was forming; see mccsd's log on that host")));
    return true;
  }
  if (!rendezvous.over && rendezvous.joined.size() != rendezvous.reported_joined &&
      clock_.Now() >= rendezvous.next_report) {
    SendMissing(rendezvous);
    moved = true;
  }
  return moved;
}

bool Rendezvous::PollHost(CommId id, PendingRendezvous& rendezvous, JoiningHost& joining_host,
                          bool& moved) {
  const uint64_t before = joining_host.link->moved_bytes();
  moved |= joining_host.link->Poll();
  Spend(kLinkCost + static_cast<int64_t>(joining_host.link->moved_bytes() - before));
  for (int i = 0; i < kPeerMessagesPerTurn && spent_ < kCostPerTurn; ++i) {
    const uint64_t read = joining_host.link->moved_bytes();
    auto message = joining_host.link->Receive();
    Spend(kLinkCost + static_cast<int64_t>(joining_host.link->moved_bytes() - read));
    if (!message.ok()) return true;
    if (!message->has_value()) {
      if (joining_host.link->has_work()) joining_host.List();
      return false;
    }
    moved = true;
    if ((*message)->has_join()) {
      HandleJoin(id, rendezvous, joining_host, (*message)->join());
    } else if (joining_host.ranks.empty()) {
      return true;  // It may not send anything else before it has joined.
    } else if ((*message)->has_failed()) {
      // It withdraws: its message has the reason, which a broken link lacks.
      RejectRendezvous(
          id, rendezvous,
          StatusFromPeer((*message)->failed().error_code(), (*message)->failed().message()));
    } else {
      RejectRendezvous(id, rendezvous,
                       Rejected(joining_host.name, **message,
                                absl::DataLossError("not allowed from a joining host")));
    }
    if (rendezvous.over) return false;
    if (joining_host.link == nullptr) return true;
  }
  joining_host.Wake();  // for the remaining messages
  return false;
}

void Rendezvous::HandleJoin(CommId id, PendingRendezvous& rendezvous, JoiningHost& joining_host,
                            const peer::Join& join) {
  if (rendezvous.guessable && join.tenant() != rendezvous.creator && joining_host.ranks.empty()) {
    RejectHost(
        rendezvous, joining_host,
        absl::PermissionDeniedError(absl::StrCat("NCCL_COMM_ID of communicator ", FormatCommId(id),
                                                 " belongs to a job of tenant ", rendezvous.creator,
                                                 "; use another address or port")));
    return;
  }
  if (!joining_host.proven_host.empty() && join.host() != joining_host.proven_host) {
    Write(rendezvous, LogLevel::kWarning,
          absl::StrCat("communicator ", FormatCommId(id), ": the daemon of host ",
                       joining_host.proven_host, " tried to join as host ",
                       CutPeerText(join.host())));
    if (joining_host.ranks.empty()) {
      RejectHost(rendezvous, joining_host,
                 absl::UnauthenticatedError(absl::StrCat(
                     "a daemon with the certificate of host ", joining_host.proven_host,
                     " cannot join as host ", CutPeerText(join.host()),
                     ": correct `host` or `tls` in mccsd's configuration there")));
    }
    return;
  }
  if (absl::Status status = CheckJoin(rendezvous, joining_host, join); !status.ok()) {
    RejectRendezvous(id, rendezvous, status);
    return;
  }
  if (rendezvous.joined.empty()) {
    rendezvous.ranks = join.ranks();
    rendezvous.tenant = join.tenant();
    rendezvous.comm_name = join.name();
  }
  joining_host.name = join.host();
  joining_host.endpoint = {join.endpoint_host(), static_cast<uint16_t>(join.endpoint_port())};
  const int rank = join.rank().rank();
  peer::Join& known = joining_host.ranks[rank];
  known = join;
  known.DiscardUnknownFields();  // The roster has parts of it.
  joining_host.position = known.position();
  joining_host.rdma_addresses = known.rdma_addresses();
  rendezvous.joined[rank] = &joining_host;
  if (rendezvous.joined.size() == static_cast<size_t>(rendezvous.ranks)) SendRoster(id, rendezvous);
}

absl::Status Rendezvous::CheckJoin(const PendingRendezvous& rendezvous,
                                   const JoiningHost& joining_host, const peer::Join& join) const {
  const cluster::Member& member = join.rank();
  const int rank = member.rank();
  if (join.ByteSizeLong() > kMaxJoinBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " sends too much data about itself: ", join.ByteSizeLong(),
                     " bytes, at most ", kMaxJoinBytes, " are allowed"));
  }
  const std::string joining_rank =
      absl::StrCat("rank ", rank, " (process ", member.process(), " on host ", join.host(), ")");
  if (join.ranks() < 1 || join.ranks() > kMaxRanks || rank < 0 || rank >= join.ranks()) {
    return absl::InvalidArgumentError(absl::StrCat(
        joining_rank, " is out of range for a communicator of ", join.ranks(), " ranks"));
  }
  if (!rendezvous.joined.empty() && join.ranks() != rendezvous.ranks) {
    return absl::InvalidArgumentError(absl::StrCat(joining_rank, " joins with ", join.ranks(),
                                                   " ranks, other ranks with ", rendezvous.ranks));
  }
  if (!rendezvous.joined.empty() && join.tenant() != rendezvous.tenant) {
    return absl::PermissionDeniedError(absl::StrCat(joining_rank, " belongs to tenant ",
                                                    join.tenant(), ", the communicator to tenant ",
                                                    rendezvous.tenant));
  }
  if (auto other = rendezvous.joined.find(rank); other != rendezvous.joined.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "two processes claim rank ", rank, ": process ",
        other->second->ranks.at(rank).rank().process(), " on host ", other->second->name,
        " and process ", member.process(), " on host ", join.host()));
  }
  if (joining_host.ranks.size() >= kMaxLocalRanks) {
    return absl::InvalidArgumentError(absl::StrCat(joining_rank,
                                                   " exceeds the limit: ", kMaxLocalRanks,
                                                   " ranks of one communicator per host"));
  }
  if (absl::Status addresses = CheckRdmaAddresses(join.rdma_addresses()); !addresses.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(joining_rank, " joins with ", addresses.message()));
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
void Rendezvous::SendMissing(PendingRendezvous& rendezvous) {
  rendezvous.next_report = clock_.Now() + kProgressEveryNs;
  rendezvous.reported_joined = rendezvous.joined.size();
  peer::Message message;
  peer::Waiting* waiting = message.mutable_waiting();
  while (rendezvous.joined.contains(rendezvous.first_missing)) ++rendezvous.first_missing;
  const int first = rendezvous.first_missing;
  for (int rank = first; rank < std::min(rendezvous.ranks, first + kMaxSearchedRanks); ++rank) {
    if (rendezvous.joined.contains(rank)) continue;
    if (waiting->missing_ranks_size() == static_cast<int>(kMaxNamedMissingRanks)) break;
    waiting->add_missing_ranks(rank);
  }
  waiting->set_more(
      static_cast<uint32_t>(static_cast<size_t>(rendezvous.ranks) - rendezvous.joined.size()) -
      static_cast<uint32_t>(waiting->missing_ranks_size()));
  const PeerFrame frame = MakeFrame(message);
  for (JoiningHost& joining_host : rendezvous.joining_hosts) joining_host.Send(frame);
  SpendForAll(rendezvous);
}

void Rendezvous::SendRoster(CommId id, PendingRendezvous& rendezvous) {
  std::erase_if(rendezvous.joining_hosts,
                [&](JoiningHost& joining_host) {  // Connected, but without a rank.
                  return joining_host.ranks.empty();
                });
  std::vector<Position> positions;
  std::vector<JoiningHost*> joining_hosts;
  for (JoiningHost& joining_host : rendezvous.joining_hosts) {
    joining_hosts.push_back(&joining_host);
    positions.push_back({.pod = joining_host.position.pod(),
                         .rack = joining_host.position.rack(),
                         .host = joining_host.name});
  }
  peer::Roster roster;
  // A guessable id may be reused while the first communicator still exists, so each gets a unique
  // id.
  roster.set_comm_id(rendezvous.guessable ? random_.NextU64() : id.value());
  roster.set_tenant(rendezvous.tenant);
  roster.set_name(rendezvous.comm_name);
  Secret key;
  random_.Fill(std::as_writable_bytes(std::span(key)));
  roster.set_key(key.data(), key.size());
  const std::vector<HostIndex> order = LocalityOrder(positions);
  for (const HostIndex index : order) {
    JoiningHost& joining_host = *joining_hosts[static_cast<size_t>(index.value())];
    peer::HostInfo* host = roster.add_hosts();
    host->set_name(joining_host.name);
    host->set_endpoint_host(joining_host.endpoint.host);
    host->set_endpoint_port(joining_host.endpoint.port);
    *host->mutable_position() = joining_host.position;
    *host->mutable_rdma_addresses() = joining_host.rdma_addresses;
    for (auto& [rank, join] : joining_host.ranks) host->add_ranks()->Swap(join.mutable_rank());
  }
  Write(rendezvous, LogLevel::kInfo,
        absl::StrCat("communicator ", FormatCommId(CommId(roster.comm_id())), ": all ",
                     rendezvous.ranks, " ranks have joined from ", rendezvous.joining_hosts.size(),
                     " hosts"));
  peer::Message message;
  message.set_roster(roster.SerializeAsString());
  Spend(static_cast<int64_t>(message.roster().size()) * kRosterByteCost);
  rendezvous.roster = MakeFrame(message);
  PeerFrame notice;
  if (order.size() > kDirectReceivers) {
    peer::Message hash;
    hash.mutable_roster_notice()->set_hash(RelayHash(rendezvous.secret, message.roster()));
    notice = MakeFrame(hash);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    JoiningHost& joining_host = *joining_hosts[static_cast<size_t>(order[i].value())];
    joining_host.notified = i >= kDirectReceivers;
    joining_host.Send(joining_host.notified ? notice : rendezvous.roster);
  }
  rendezvous.over = true;
}

void Rendezvous::RejectHost(const PendingRendezvous& rendezvous, JoiningHost& joining_host,
                            const absl::Status& why) {
  joining_host.link->Queue(MakeFrame(RejectedMessage(why)));
  CloseLater(rendezvous.counted_as, std::move(joining_host.link), nullptr);
}

void Rendezvous::RejectRendezvous(CommId id, PendingRendezvous& rendezvous,
                                  const absl::Status& why) {
  Write(rendezvous, LogLevel::kWarning,
        absl::StrCat("communicator ", FormatCommId(id), " cannot form: ", why.message()));
  const PeerFrame frame = MakeFrame(RejectedMessage(why));
  for (JoiningHost& joining_host : rendezvous.joining_hosts) joining_host.Send(frame);
  rendezvous.over = true;
}

}  // namespace mccs
