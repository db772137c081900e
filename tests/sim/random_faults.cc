#include "tests/sim/random_faults.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"

namespace mccs {
namespace {

constexpr int64_t kLongestNs = 2 * kNsPerSec;
constexpr int64_t kLongestCutNs = 8 * kNsPerSec;
constexpr int64_t kLongestHostDiskNs = 8 * kNsPerSec;
constexpr int64_t kBriefNs = 200 * kNsPerMs;
constexpr int64_t kLongestJumpNs = 300 * kNsPerSec;
constexpr int64_t kWallJumpNs = 30 * 24 * 3600 * kNsPerSec;
// Most commits of the store have fewer writes than the first and more than the second one.
constexpr uint64_t kWritesOfCommit = 16;
constexpr uint64_t kWritesOnFullDisk = 4;
// Most tables of Tenants are longer.
constexpr uint64_t kTableBytes = 100;
constexpr char kNoDescriptors[] = "Too many open files";
constexpr char kNoMemory[] = "Cannot allocate memory";

}  // namespace

RandomFaults::RandomFaults(SimWorld& world, SimControl& control, bool verbs, uint64_t seed,
                           RandomCounts& counts)
    : world_(world),
      control_(control),
      counts_(counts),
      random_(seed * 31 + 7),
      verbs_(verbs),
      enabled_(Below(2) == 0) {
  world_.AddParticipant(*this);
}

void RandomFaults::Act(const std::vector<int>& living) {
  if (!enabled_ || living.empty() || Below(16) > 0) return;
  const int host = living[Below(living.size())];
  switch (Below(15)) {
    case 0:
    case 1:
      if (IsOn(Kind::kDescriptors, host)) return;
      world_.network().SetOutOfDescriptors(world_.host(host).address(), true);
      counts_.Add(RandomEvent::kDescriptorsExhausted);
      return Begin(Kind::kDescriptors, host, Between(1, kLongestNs));
    case 2:
    case 3:
      if (IsOn(Kind::kMemory, host)) return;
      world_.host(host).SetOutOfMemory(true);
      counts_.Add(RandomEvent::kMemoryExhausted);
      return Begin(Kind::kMemory, host, Between(1, kLongestNs));
    case 4:
      return FailStoreDisk(FailingFiles::Fault::kDiskFull);
    case 5:
      return FailStoreDisk(FailingFiles::Fault::kSyncFails);
    case 6:
      return control_.failing_store()->DieInNextCommit(Below(kWritesOfCommit));
    case 7:
      return FailHostDisk(host);
    case 8:
    case 9:
      return PlanDeathInWrite(host);
    case 10:
      return JumpClock(host);
    case 11:
      return JumpWallClock();
    default:
      return BeginPartition(living);
  }
}

void RandomFaults::FailStoreDisk(FailingFiles::Fault fault) {
  if (IsOn(Kind::kStoreDisk, -1)) return;
  const bool full = fault == FailingFiles::Fault::kDiskFull;
  control_.failing_store()->Fail(fault, full ? Below(kWritesOnFullDisk) : 0);
  counts_.Add(full ? RandomEvent::kStoreDiskFull : RandomEvent::kStoreSyncFailed);
  Begin(Kind::kStoreDisk, -1, Between(1, kLongestNs));
}

// For longer: a daemon seldom writes.
void RandomFaults::FailHostDisk(int host) {
  if (IsOn(Kind::kHostDisk, host)) return;
  const bool full = Below(2) == 0;
  control_.tenants_file(host).disk().Fail(
      full ? FailingDisk::Fault::kFull : FailingDisk::Fault::kSyncFails, Below(kTableBytes));
  counts_.Add(full ? RandomEvent::kHostDiskFull : RandomEvent::kHostSyncFailed);
  Begin(Kind::kHostDisk, host, Between(kNsPerSec, kLongestHostDiskNs));
}

// In half of all cases the new table has its name already.
void RandomFaults::PlanDeathInWrite(int host) {
  const uint64_t before = Below(FailingDisk::kDeaths - 1);
  deaths_[host] = {.at = Below(2) == 0 ? FailingDisk::Death::kAfterRename
                                       : static_cast<FailingDisk::Death>(before),
                   .left = Below(kTableBytes)};
}

std::vector<int> RandomFaults::RunFor(int64_t ns) {
  for (const auto& [host, death] : deaths_)
    control_.tenants_file(host).disk().DieAt(death.at, death.left);
  world_.RunUntil([&] { return !DeadInWrite().empty(); }, ns);
  for (const auto& [host, death] : deaths_) control_.tenants_file(host).disk().StayAlive();
  std::vector<int> dead = DeadInWrite();
  for (const int host : dead) deaths_.erase(host);
  counts_.Add(RandomEvent::kDaemonDiedInWrite, dead.size());
  return dead;
}

std::vector<int> RandomFaults::DeadInWrite() const {
  std::vector<int> dead;
  for (const auto& [host, death] : deaths_) {
    if (world_.host(host).alive() && control_.tenants_file(host).disk().dead())
      dead.push_back(host);
  }
  return dead;
}

void RandomFaults::JumpClock(int host) {
  // Lanes may be waiting to reconnect, also after an earlier jump.
  const MonotonicNs now = world_.clock().Now();
  const bool after_fault = std::ranges::any_of(faults_, [&](const Fault& fault) {
    const bool is_of_disk = fault.kind == Kind::kStoreDisk || fault.kind == Kind::kHostDisk;
    const bool affects = !is_of_disk && (fault.kind != Kind::kClock || fault.host == host);
    return affects && now <= fault.end + kGraceNs;
  });
  const bool disturbed = disturbed_at_ != 0 && now <= disturbed_at_ + kGraceNs;
  Begin(Kind::kClock, host, 0);
  faults_.back().disturbed = after_fault || disturbed;
  world_.host(host).JumpClock(Below(2) == 0 ? Between(kNsPerSec, 10 * kNsPerSec)
                                            : Between(kNsPerSec, kLongestJumpNs));
  counts_.Add(RandomEvent::kClockJumped);
}

void RandomFaults::JumpWallClock() {
  const bool back = Below(2) == 0;
  const int64_t ns = Between(kNsPerSec, kWallJumpNs);
  control_.wall_clock().Jump(back ? -ns : ns);
  counts_.Add(back ? RandomEvent::kWallClockSetBack : RandomEvent::kWallClockSetForward);
}

void RandomFaults::BeginPartition(const std::vector<int>& living) {
  const int from = living[Below(living.size())];
  const int to = living[Below(living.size())];
  const auto partitioned = [&](const Fault& fault) { return fault.to >= 0 && !fault.over; };
  if (from == to || std::ranges::any_of(faults_, partitioned)) return;
  world_.network().PartitionOneWay(world_.host(from).address(), world_.host(to).address());
  switch (Below(3)) {
    case 0:
      counts_.Add(RandomEvent::kBriefOneWayPartition);
      return Begin(Kind::kBriefOneWay, from, Between(1, kBriefNs), to);
    case 1:
      counts_.Add(RandomEvent::kOneWayPartition);
      Begin(Kind::kOneWay, from, Between(kLaneReconnectTimeoutNs, kLongestNs), to);
      break;
    default:
      world_.network().PartitionOneWay(world_.host(to).address(), world_.host(from).address());
      counts_.Add(RandomEvent::kPairCut);
      Begin(Kind::kCut, from, Between(kLaneReconnectTimeoutNs, kLongestCutNs), to);
      break;
  }
  CutLanes(from, to);
  CutLanes(to, from);
}

// By the last reports.
void RandomFaults::CutLanes(int from, int to) {
  for (const auto& [id, report] : control_.agent(from).reports()) {
    for (const agent::v1::Lane& lane : report.lanes()) {
      const auto remote = ParseEndpoint(lane.remote());
      if (remote.ok() && remote->host == world_.host(to).address()) world_.CutLane(lane.local());
    }
  }
}

bool RandomFaults::IsOn(Kind kind, int host) const {
  return std::ranges::any_of(faults_, [&](const Fault& fault) {
    return fault.kind == kind && fault.host == host && !fault.over;
  });
}

void RandomFaults::Begin(Kind kind, int host, int64_t ns, int to) {
  const MonotonicNs now = world_.clock().Now();
  faults_.push_back({.kind = kind, .host = host, .to = to, .begin = now, .end = now + ns});
}

void RandomFaults::End(Fault& fault) {
  fault.over = true;
  fault.end = std::min(fault.end, world_.clock().Now());
  const auto address = [&](int host) { return world_.host(host).address(); };
  switch (fault.kind) {
    case Kind::kDescriptors:
      return world_.network().SetOutOfDescriptors(address(fault.host), false);
    case Kind::kMemory:
      return world_.host(fault.host).SetOutOfMemory(false);
    case Kind::kStoreDisk:
      return control_.failing_store()->Repair();
    case Kind::kHostDisk:
      return control_.tenants_file(fault.host).disk().Repair();
    case Kind::kBriefOneWay:
    case Kind::kOneWay:
    case Kind::kCut:
      return world_.network().Heal(address(fault.host), address(fault.to));
    case Kind::kClock:
      return;
  }
}

bool RandomFaults::Poll() {
  bool moved = false;
  for (Fault& fault : faults_) {
    if (fault.over || world_.clock().Now() < fault.end) continue;
    End(fault);
    moved = true;
  }
  if (watch_) watch_();
  return moved;
}

MonotonicNs RandomFaults::NextEvent() const {
  MonotonicNs next = kNever;
  for (const Fault& fault : faults_) {
    if (!fault.over) next = std::min(next, fault.end);
  }
  return next;
}

MonotonicNs RandomFaults::EndAll() {
  MonotonicNs until = world_.clock().Now() + kGraceNs;
  for (Fault& fault : faults_) {
    if (!fault.over) End(fault);
    if (fault.kind == Kind::kCut) until = std::max(until, fault.end + kQuarantineNs);
  }
  control_.failing_store()->StayAlive();
  deaths_.clear();
  return until;
}

// ---- Errors that they explain -------------------------------------------------------------------

bool RandomFaults::Explains(const std::vector<int>& hosts, const std::string& error,
                            bool forming) const {
  return std::ranges::any_of(
      faults_, [&](const Fault& fault) { return Explains(fault, hosts, error, forming); });
}

bool RandomFaults::Explains(const Fault& fault, const std::vector<int>& hosts,
                            const std::string& error, bool forming) const {
  const auto has_rank_on = [&](int host) { return std::ranges::find(hosts, host) != hosts.end(); };
  const MonotonicNs now = world_.clock().Now();
  if (!has_rank_on(fault.host)) return false;
  if (fault.kind == Kind::kCut && has_rank_on(fault.to) &&
      absl::StrContains(error, "; unreachable for "))
    return now <= fault.end + kQuarantineNs;
  if (now > fault.end + kGraceNs) return false;
  switch (fault.kind) {
    case Kind::kDescriptors:
      // The other end of a lane only sees that the lane does not reconnect.
      return absl::StrContains(error, kNoDescriptors) || absl::StrContains(error, "lane stalled");
    case Kind::kMemory:
      return absl::StrContains(error, kNoMemory);
    case Kind::kClock:
      // The clock jumped over the time that a lane has to reconnect.
      return forming || fault.disturbed || (verbs_ && absl::StrContains(error, "lane stalled"));
    case Kind::kOneWay:
    case Kind::kCut:
      return has_rank_on(fault.to);
    case Kind::kBriefOneWay:
    case Kind::kStoreDisk:
    case Kind::kHostDisk:
      return false;
  }
  return false;
}

MonotonicNs RandomFaults::DelayedUntil(const std::vector<int>& hosts) const {
  const auto has_rank_on = [&](int host) { return std::ranges::find(hosts, host) != hosts.end(); };
  MonotonicNs until = 0;
  for (const Fault& fault : faults_) {
    if (fault.to < 0 || !has_rank_on(fault.host) || !has_rank_on(fault.to)) continue;
    until = std::max(until, fault.end);
  }
  return until;
}

std::string RandomFaults::FindViolation() const {
  for (int h = 0; h < world_.hosts(); ++h) {
    const std::string& violation = control_.tenants_file(h).violation();
    if (!violation.empty()) return absl::StrCat("h", h, ": ", violation);
  }
  return control_.failing_store()->FindViolation();
}

void RandomFaults::CountFiles() {
  counts_.Add(RandomEvent::kStoreWriteTorn, control_.failing_store()->torn_writes());
  for (int h = 0; h < world_.hosts(); ++h) {
    const SimTenantsFile::Counts& counts = control_.tenants_file(h).counts();
    counts_.Add(RandomEvent::kTenantsNotKept, counts.not_kept);
    counts_.Add(RandomEvent::kOldTenantsFound, counts.found_old);
    counts_.Add(RandomEvent::kNewTenantsFound, counts.found_new);
  }
}

bool RandomFaults::HadFault(const std::vector<int>& hosts) const {
  return std::ranges::any_of(faults_, [&](const Fault& fault) {
    return fault.over && std::ranges::find(hosts, fault.host) != hosts.end();
  });
}

}  // namespace mccs
