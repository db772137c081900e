#include "service/communicator/membership/splits.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/shim_control.h"

namespace mccs {

// ---- Local ranks --------------------------------------------------------------------------------

absl::Status Splits::Add(Call call) {
  const auto pending = std::count_if(waiting_.begin(), waiting_.end(),
                                     [&](const Waiting& w) { return w.call.rank == call.rank; });
  if (static_cast<size_t>(pending) >= kMaxPendingSplits) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "rank ", call.rank.value(), " has reached the limit of pending ncclCommSplit calls: ",
        pending, " await the other ranks"));
  }
  peer::Message message;
  peer::SplitCall* split = message.mutable_split_call();
  split->set_number(++called_[call.rank]);
  split->set_rank(call.rank.value());
  split->set_color(call.choice.color);
  split->set_key(call.choice.key);
  waiting_.push_back({.number = split->number(), .call = std::move(call), .departure_reason = {}});
  if (leads()) return Count(*split);
  formation_.star->SendToLeader(message);
  return absl::OkStatus();
}

void Splits::Abandon(const RankListener* port, uint64_t request, const std::string& why) {
  auto orphan = [&](auto& entry, RankListener*& its_port, uint64_t its_request) {
    if (its_port != port || (request != 0 && request != its_request)) return;
    its_port = nullptr;
    entry.departure_reason = why;
  };
  for (Waiting& waiting : waiting_) orphan(waiting, waiting.call.port, waiting.call.request);
  for (SplitResult& result : results_) orphan(result, result.port, result.request);
}

void Splits::Fail(const absl::Status& why) {
  for (Waiting& waiting : std::exchange(waiting_, {})) {
    results_.push_back({.port = waiting.call.port,
                        .request = waiting.call.request,
                        .status = why,
                        .join = {},
                        .departure_reason = {}});
  }
  pending_splits_.clear();
}

void Splits::FailNumber(uint64_t number, const absl::Status& why) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.number != number) return false;
    results_.push_back({.port = waiting.call.port,
                        .request = waiting.call.request,
                        .status = why,
                        .join = {},
                        .departure_reason = {}});
    return true;
  });
}

// ---- Messages -----------------------------------------------------------------------------------

absl::Status Splits::OnMessage(const StarMessage& received) {
  const peer::Message& message = received.message;
  if (message.has_split_call()) {
    MCCS_RETURN_IF_ERROR(CheckCall(received.from, message.split_call()));
    return Count(message.split_call());
  }
  if (leads()) return absl::DataLossError("not allowed to the leader, which is this host");
  if (message.has_split_table()) return TakeTable(message.split_table());
  if (message.has_split_failed()) {
    const peer::SplitFailed& failed = message.split_failed();
    FailNumber(failed.number(), StatusFromPeer(failed.error_code(), failed.message()));
  }
  return absl::OkStatus();
}

absl::Status Splits::CheckCall(HostIndex from, const peer::SplitCall& call) {
  const Membership& members = *formation_.members;
  const bool exists = call.rank() >= 0 && static_cast<size_t>(call.rank()) < ranks();
  if (!leads() || !exists || members.HostOf(Rank(call.rank())) != from) {
    return absl::DataLossError(absl::StrCat("host ", members.HostName(from),
                                            " sent a split for rank ", call.rank(),
                                            ", which is not one of its ranks"));
  }
  const uint64_t next = ++called_[Rank(call.rank())];
  if (call.number() == next) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("rank ", call.rank(), " sent split #", call.number(), ", expected #", next));
}

// ---- The leader ---------------------------------------------------------------------------------

absl::Status Splits::Count(const peer::SplitCall& call) {
  if (!rank_left_.ok()) {
    SendFailure(call.number(), rank_left_);
    return absl::OkStatus();
  }
  PendingSplit& tally = pending_splits_[call.number()];
  if (tally.choices.empty()) {
    tally.choices.resize(ranks());
    tally.missing = static_cast<int>(ranks());
  }
  auto& choice = tally.choices[static_cast<size_t>(call.rank())];
  if (choice.has_value() || pending_splits_.size() > kMaxPendingSplits) {
    return absl::DataLossError(absl::StrCat("rank ", call.rank(), " sent split #", call.number(),
                                            " twice or beyond the limit"));
  }
  choice = SplitChoice{call.color(), call.key()};
  if (--tally.missing > 0) return absl::OkStatus();
  peer::Message message;
  peer::SplitTable* table = message.mutable_split_table();
  table->set_number(call.number());
  for (const auto& given : tally.choices) {
    table->add_colors(given->color);
    table->add_keys(given->key);
  }
  pending_splits_.erase(call.number());
  formation_.star->Broadcast(message);
  return TakeTable(*table);
}

void Splits::RankLeft(const absl::Status& why) {
  if (!leads() || !rank_left_.ok()) return;
  rank_left_ = why;
  for (const auto& [number, tally] : std::exchange(pending_splits_, {})) SendFailure(number, why);
}

void Splits::SendFailure(uint64_t number, const absl::Status& why) {
  peer::Message message;
  message.mutable_split_failed()->set_number(number);
  message.mutable_split_failed()->set_error_code(static_cast<uint32_t>(why.code()));
  message.mutable_split_failed()->set_message(std::string(why.message()));
  formation_.star->Broadcast(message);
  FailNumber(number, why);
}

// ---- The result ---------------------------------------------------------------------------------

absl::Status Splits::TakeTable(const peer::SplitTable& table) {
  auto reject = [&](const auto&... why) {
    return absl::DataLossError(
        absl::StrCat("invalid table of split #", table.number(), ": ", why...));
  };
  if (static_cast<size_t>(table.colors_size()) != ranks() ||
      static_cast<size_t>(table.keys_size()) != ranks()) {
    return reject(table.colors_size(), " colors for ", ranks(), " ranks");
  }
  std::vector<SplitChoice> choices;
  for (int r = 0; r < table.colors_size(); ++r) {
    choices.push_back({table.colors(r), table.keys(r)});
  }
  std::map<int32_t, Group> groups;
  std::vector<SplitResult> results;
  for (const Waiting& waiting : waiting_) {
    if (waiting.number != table.number()) continue;
    const SplitChoice& choice = choices[static_cast<size_t>(waiting.call.rank.value())];
    if (choice != waiting.call.choice) {
      return reject("it differs from the call of rank ", waiting.call.rank.value());
    }
    SplitResult& result =
        results.emplace_back(SplitResult{.port = waiting.call.port,
                                         .request = waiting.call.request,
                                         .status = {},
                                         .join = {},
                                         .departure_reason = waiting.departure_reason});
    if (choice.color == wire::kNoColor) continue;
    Group& group = groups[choice.color];
    if (group.ranks.empty()) group = MakeGroup(table.number(), choices, choice.color);
    result.join = waiting.call.join;
    result.join->id = group.id;
    result.join->roster = group.roster;
    result.join->ranks = static_cast<int>(group.ranks.size());
    const auto place = std::find(group.ranks.begin(), group.ranks.end(), waiting.call.rank);
    result.join->rank.set_rank(static_cast<int>(place - group.ranks.begin()));
  }
  const Membership& members = *formation_.members;
  if (results.size() != members.layout.hosts[static_cast<size_t>(members.self.value())].size()) {
    return reject("not all ranks of this host have called");
  }
  std::erase_if(waiting_, [&](const Waiting& w) { return w.number == table.number(); });
  std::ranges::move(results, std::back_inserter(results_));
  return absl::OkStatus();
}

Splits::Group Splits::MakeGroup(uint64_t number, std::span<const SplitChoice> choices,
                                int32_t color) const {
  const int64_t facts[] = {static_cast<int64_t>(number), color};
  Group group{.ranks = RanksOfColor(choices, color),
              .id = DeriveId({formation_.key, formation_.id}, "split", facts),
              .roster = nullptr};
  group.roster = std::make_shared<const peer::Roster>(
      RosterOf(*formation_.members, group.ranks, CommId(group.id.comm_id)));
  return group;
}

}  // namespace mccs
