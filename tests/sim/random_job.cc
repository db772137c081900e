#include "tests/sim/random_job.h"

#include "absl/strings/str_cat.h"
#include "tests/sim/random_operator.h"

namespace mccs {
namespace {

constexpr size_t kJobElements = 1 << 17;
constexpr uint64_t kLargestCount = 1200;
constexpr OpKind kKinds[] = {OpKind::kAllReduce, OpKind::kAllReduce,     OpKind::kAllGather,
                             OpKind::kBroadcast, OpKind::kReduceScatter, OpKind::kAllToAll,
                             OpKind::kSend};

std::vector<int> RandomLayout(const std::vector<int>& hosts, std::mt19937_64& random) {
  std::vector<int> host_of_rank(2 + random() % 4);
  for (int& host : host_of_rank) host = hosts[random() % hosts.size()];
  return host_of_rank;
}

}  // namespace

RandomJob::RandomJob(SimWorld& world, const std::vector<int>& hosts, std::mt19937_64& random)
    : world_(world),
      host_of_rank_(RandomLayout(hosts, random)),
      next_(host_of_rank_.size()),
      alive_(host_of_rank_.size(), true),
      job_(world, host_of_rank_, kJobElements * sizeof(float),
           RandomTenantProcessName(random() % kRandomTenants)) {
  const auto some_rank = [&] { return static_cast<int>(random() % host_of_rank_.size()); };
  uint64_t at = 0;
  for (uint64_t i = 0; i < 6 + random() % 12; ++i) {
    Operation operation{.kind = kKinds[random() % std::size(kKinds)],
                        .count = 1 + random() % kLargestCount,
                        .at = at,
                        .root = some_rank(),
                        .in_place = random() % 2 == 0};
    operation.receiver = (operation.root + 1 + some_rank() % (ranks() - 1)) % ranks();
    if (operation.kind != OpKind::kAllReduce) operation.in_place = false;
    at += Extent(operation);
    if (at > kJobElements) break;
    operations_.push_back(operation);
  }
  job_.Fill(kJobElements);
  for (const Operation& operation : operations_) {
    if (!operation.in_place) continue;
    for (int r = 0; r < ranks(); ++r) job_.CopyToOutput(r, operation.at, operation.count);
  }
}

RandomJob::Outcome RandomJob::Form() {
  const auto rejected = [&] {
    for (int r = 0; r < ranks(); ++r) {
      const SimRank& rank = job_.rank(r);
      if (!rank.answered || rank.status.error == wire::ErrorClass::kNone) continue;
      why_ = rank.status.text;
      return true;
    }
    if (job_.BufferRejected()) why_ = absl::StrCat("buffer rejected: ", job_.BufferRejection());
    return !why_.empty();
  };
  const bool answered = job_.Begin() && world_.RunUntil([&] {
    return rejected() || lost_ || (job_.Formed() && job_.BuffersAnswered());
  });
  if (!answered) return Outcome::kTimedOut;
  if (why_.empty()) why_ = lost_ ? FindFailure() : "";
  formed_ = why_.empty();
  if (formed_) return Outcome::kFormed;
  End();
  return Outcome::kRejected;
}

void RandomJob::End() {
  ended_ = true;
  for (size_t r = 0; r < alive_.size(); ++r) {
    if (alive_[r]) job_.tenant(static_cast<int>(r)).Kill();
    alive_[r] = false;
  }
}

int RandomJob::ProcessesOn(int host) const {
  int processes = 0;
  for (size_t r = 0; r < alive_.size(); ++r) {
    processes += alive_[r] && host_of_rank_[r] == host ? 1 : 0;
  }
  return processes;
}

uint64_t RandomJob::Extent(const Operation& operation) const {
  switch (operation.kind) {
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
    case OpKind::kAllToAll:
      return operation.count * host_of_rank_.size();
    default:
      return operation.count;
  }
}

bool RandomJob::TakesPart(const Operation& operation, int rank) const {
  if (operation.kind != OpKind::kSend) return true;
  return rank == operation.root || rank == operation.receiver;
}

bool RandomJob::AllPosted() const {
  for (size_t r = 0; r < next_.size(); ++r) {
    if (alive_[r] && next_[r] < operations_.size()) return false;
  }
  return true;
}

bool RandomJob::PostOne(std::mt19937_64& random) {
  if (AllPosted()) return false;
  size_t rank = random() % next_.size();
  while (!alive_[rank] || next_[rank] == operations_.size()) rank = (rank + 1) % next_.size();
  const Operation& operation = operations_[next_[rank]++];
  if (TakesPart(operation, static_cast<int>(rank))) Post(operation, static_cast<int>(rank));
  return true;
}

void RandomJob::Post(const Operation& operation, int rank) {
  if (operation.kind == OpKind::kSend) {
    const bool sends = rank == operation.root;
    job_.Post(rank, SimJob::Message{.sends = sends,
                                    .peer = sends ? operation.receiver : operation.root,
                                    .at = operation.at,
                                    .count = operation.count});
    return;
  }
  SimCall call = job_.CallOf(rank, operation.kind, operation.count, operation.at);
  call.root = operation.kind == OpKind::kBroadcast ? operation.root : 0;
  if (operation.in_place) call.send = call.recv;
  job_.tenant(rank).Post(job_.rank(rank), call);
}

void RandomJob::OnDaemonDied(int host) {
  for (size_t r = 0; r < alive_.size(); ++r) {
    if (host_of_rank_[r] != host || !alive_[r]) continue;
    alive_[r] = false;
    if (!lost_) lost_at_ = world_.clock().Now();
    lost_ = true;
  }
}

void RandomJob::KillProcess(std::mt19937_64& random) {
  const size_t rank = random() % alive_.size();
  job_.tenant(static_cast<int>(rank)).Kill();
  alive_[rank] = false;
  lost_ = true;
  lost_at_ = world_.clock().Now();
  // Survivors detect the death only in an operation that the dead rank has not called.
  for (size_t r = 0; r < next_.size(); ++r) {
    if (!alive_[r]) continue;
    const auto survivor = static_cast<int>(r);
    for (; next_[r] < operations_.size(); ++next_[r]) {
      if (TakesPart(operations_[next_[r]], survivor)) Post(operations_[next_[r]], survivor);
    }
    job_.Post(survivor, OpKind::kAllReduce, 1);
  }
}

bool RandomJob::HasFailed(int r) const {
  if (!job_.HasRank(r)) return false;
  const SimRank& rank = const_cast<SimJob&>(job_).rank(r);
  return rank.memory.data() != nullptr && rank.failed();
}

std::string RandomJob::FindFailure() const {
  for (int r = 0; r < ranks(); ++r) {
    if (alive_[static_cast<size_t>(r)] && HasFailed(r))
      return absl::StrCat("rank ", r, ": ", const_cast<SimJob&>(job_).rank(r).failure());
  }
  return "";
}

void RandomJob::FailByFault() {
  lost_ = true;
  failed_by_fault_ = true;
  lost_at_ = world_.clock().Now();
}

void RandomJob::PostOneMore() { job_.PostAll(OpKind::kAllReduce, 1); }

std::string RandomJob::FindUnawareSurvivor() const {
  for (int r = 0; r < ranks(); ++r) {
    if (!alive_[static_cast<size_t>(r)]) continue;
    if (HasFailed(r)) continue;
    const SimRank& rank = const_cast<SimJob&>(job_).rank(r);
    return absl::StrCat("rank ", r, " on h", host_of_rank_[static_cast<size_t>(r)], " (",
                        rank.done(), " of ", rank.posted, " calls done)");
  }
  return "";
}

bool RandomJob::IsFinished() const {
  for (int r = 0; r < ranks(); ++r) {
    if (!alive_[static_cast<size_t>(r)]) continue;
    const SimRank& rank = const_cast<SimJob&>(job_).rank(r);
    if (rank.done() != rank.posted && !rank.failed()) return false;
  }
  return true;
}

float RandomJob::Expected(const Operation& operation, int rank, uint64_t i) const {
  const auto input = [&](int r, uint64_t at) { return SimJob::InputValue(r, operation.at + at); };
  const auto sum = [&](uint64_t at) {
    float total = 0;
    for (int r = 0; r < ranks(); ++r) total += input(r, at);
    return total;
  };
  const uint64_t count = operation.count;
  const auto part = static_cast<uint64_t>(rank) * count;
  const bool beyond = i >= count;
  switch (operation.kind) {
    case OpKind::kAllReduce:
      return sum(i);
    case OpKind::kAllGather:
      return input(static_cast<int>(i / count), i % count);
    case OpKind::kBroadcast:
      return input(operation.root, i);
    case OpKind::kReduceScatter:
      return beyond ? SimJob::kUnwritten : sum(part + i);
    case OpKind::kAllToAll:
      return input(static_cast<int>(i / count), part + i % count);
    default:
      return rank == operation.receiver ? input(operation.root, i) : SimJob::kUnwritten;
  }
}

std::string RandomJob::Check() const {
  for (int r = 0; r < ranks(); ++r) {
    const SimRank& rank = const_cast<SimJob&>(job_).rank(r);
    if (rank.failed()) return absl::StrCat("rank ", r, " failed: ", rank.failure());
    uint64_t end = 0;
    for (size_t o = 0; o < operations_.size(); ++o) {
      const Operation& operation = operations_[o];
      end = operation.at + Extent(operation);
      for (uint64_t i = 0; i < Extent(operation); ++i) {
        const float is = job_.output(r, operation.at + i);
        const float must = Expected(operation, r, i);
        if (is == must) continue;
        return absl::StrCat("rank ", r, ", operation #", o, " (", std::string(Name(operation.kind)),
                            " of ", operation.count, "), element ", i, ": ", is, ", expected ",
                            must);
      }
    }
    for (uint64_t i = end; i < kJobElements; ++i) {
      if (job_.output(r, i) != SimJob::kUnwritten) {
        return absl::StrCat("rank ", r, ": element ", i,
                            " after the last operation's memory was written");
      }
    }
  }
  return "";
}

}  // namespace mccs
