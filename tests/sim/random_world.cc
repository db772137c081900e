#include "tests/sim/random_world.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/planning/planner.h"
#include "tests/sim/hostile_tenant.h"
#include "tests/sim/random_faults.h"
#include "tests/sim/random_job.h"
#include "tests/sim/random_lanes.h"
#include "tests/sim/random_operator.h"
#include "tests/sim/sim_control.h"
#include "tests/sim/switch_log.h"

namespace mccs {
namespace {

// ---- The world ----------------------------------------------------------------------------------

// Simulated. A dropped change is proposed again after 30 s.
constexpr int64_t kTimeoutNs = 300 * kNsPerSec;
// Lanes tolerate 700 ms without a connection.
constexpr int64_t kMaxPartitionNs = 200 * kNsPerMs;
// A lane that could not move retries each second, and reports it with the next operation.
constexpr int kMaxMoveRetries = 20;
constexpr size_t kMaxJobs = 8;

// Of the daemons' certificates; 0: they have none.
uint64_t AuthorityOf(uint64_t seed, const RandomWorldOptions& options) {
  const uint64_t dice = std::mt19937_64(~seed)();
  return options.certificates && dice % 2 == 0 ? dice | 1 : 0;
}

class RandomWorld {
 public:
  RandomWorld(uint64_t seed, const RandomWorldOptions& options)
      : random_(seed), hosts_(2 + static_cast<int>(Below(4))), world_(MakeOptions(seed, options)) {
    std::vector<std::string> addresses;
    for (int h = 0; h < hosts_; ++h) addresses.push_back(world_.host(h).address());
    operator_.emplace(*control_, racks_, addresses, outcome_.counts);
    restarted_.resize(static_cast<size_t>(hosts_));
    if (options.hostile_tenants)
      hostile_tenants_.emplace(world_, AuthorityOf(seed, options), seed, outcome_.counts);
    if (options.faults) {
      faults_.emplace(world_, *control_, options.verbs, seed, outcome_.counts);
      faults_->Watch([this] { NoteFailures(); });
    }
  }

  RandomWorldOutcome Run() {
    outcome_.violation = RunAll();
    if (faults_.has_value()) faults_->CountFiles();
    return outcome_;
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  int RandomHost() { return static_cast<int>(Below(static_cast<uint64_t>(hosts_))); }
  void Count(RandomEvent event, uint64_t times = 1) { outcome_.counts.Add(event, times); }
  // Records the first violation.
  void Expect(bool holds, const std::string& violation) {
    if (!holds && violation_.empty()) violation_ = violation;
  }

  SimWorldOptions MakeOptions(uint64_t seed, const RandomWorldOptions& world) {
    SimWorldOptions options{.seed = seed, .hosts = hosts_, .network = {}};
    options.kernels = world.kernels;
    options.authority = AuthorityOf(seed, world);
    options.channels = 1 + static_cast<int>(Below(3));
    options.skew = 1 + static_cast<uint32_t>(Below(3));
    for (int h = 0; h < hosts_; ++h) options.racks.push_back(absl::StrCat("r", Below(3)));
    racks_ = options.racks;
    options.controller = MakeSimControl(seed, &control_, {.has_disks = world.faults});
    // A partition breaks queue pairs, and heals before their lanes fail.
    if (world.verbs)
      options.verbs = FakeVerbsOptions{.portion_bytes = 4096, .retry_ns = 20 * kNsPerMs};
    return options;
  }

  std::string RunAll() {
    may_die_ = Below(3) == 0;
    if (Below(4) > 0) RunOperator();
    for (uint64_t j = 0; j < 1 + Below(3); ++j) {
      world_.RunFor(static_cast<int64_t>(Below(2000)) * kNsPerUs);
      StartJob();
      if (Below(3) == 0) RunOperator();
    }
    for (uint64_t step = 0; violation_.empty() && (step < 40 || !AllPosted()); ++step) Step();
    EndFaults();
    if (violation_.empty()) RestartAll();
    if ((may_die_ || faults_.has_value()) && violation_.empty()) RunOneMoreJob();
    if (violation_.empty()) FinishJobs();
    if (violation_.empty()) Settle();
    if (violation_.empty()) SettleLanes();
    if (violation_.empty()) CheckEpochs();
    return violation_;
  }

  void Step() {
    const uint64_t kind = Below(100);
    if (kind < 70) {
      if (!jobs_.empty()) jobs_[Below(jobs_.size())].PostOne(random_);
    } else if (kind < 78) {
      RunOperator();
    } else if (kind < 84) {
      CutRandomLane();
    } else if (kind < 87) {
      CutRandomStream();
    } else if (kind < 90) {
      KillOrRestartController();
    } else if (kind < 92) {
      PartitionTwoHosts();
    } else if (kind < 93) {
      StartJob();
    } else if (may_die_) {
      KillOrRestartSomething(kind);
    }
    EndLostJobs();
    if (hostile_tenants_.has_value()) hostile_tenants_->Act(LivingHosts());
    if (faults_.has_value()) faults_->Act(LivingHosts());
    if (Below(2) == 0) RunFor(static_cast<int64_t>(Below(1500)) * kNsPerUs);
    if (Below(30) == 0) RunFor(static_cast<int64_t>(Below(5000)) * kNsPerMs);
  }

  // Daemons may die in a write meanwhile.
  void RunFor(int64_t ns) {
    if (!faults_.has_value()) return world_.RunFor(ns);
    for (const int dead : faults_->RunFor(ns)) {
      Kill(dead);
      if (Below(2) == 0) Restart(dead);
    }
  }

  void KillOrRestartSomething(uint64_t kind) {
    if (kind < 95) {
      KillDaemon();
    } else if (kind < 97) {
      RestartDaemon();
    } else {
      KillProcess();
    }
  }

  // ---- What happens -----------------------------------------------------------------------------

  std::vector<int> LivingHosts() {
    std::vector<int> hosts;
    for (int h = 0; h < hosts_; ++h) {
      if (world_.host(h).alive()) hosts.push_back(h);
    }
    return hosts;
  }

  void StartJob() {
    const std::vector<int> hosts = LivingHosts();
    if (hosts.empty() || jobs_.size() == kMaxJobs) return;
    RandomJob& job = jobs_.emplace_back(world_, hosts, random_);
    const std::string name = absl::StrCat("job ", jobs_.size() - 1);
    const bool after_fault = faults_.has_value() && faults_->HadFault(job.host_of_rank());
    switch (job.Form()) {
      case RandomJob::Outcome::kFormed:
        break;
      case RandomJob::Outcome::kRejected:
        if (job.failed_by_fault() || IsExplained(job, job.why()))
          return Count(RandomEvent::kJobRejectedByFault);
        Expect(operator_->has_set_quotas() && absl::StrContains(job.why(), "quota"),
               absl::StrCat(name, " is rejected: ", job.why()));
        Count(RandomEvent::kJobRejected);
        return;
      case RandomJob::Outcome::kTimedOut:
        Expect(false, absl::StrCat(name, " does not form in time"));
        return;
    }
    Count(RandomEvent::kJobAfterFault, after_fault ? 1 : 0);
    for (const int host : job.host_of_rank()) {
      if (!restarted_[static_cast<size_t>(host)]) continue;
      Count(RandomEvent::kJobOnRestartedDaemon);
      break;
    }
  }

  void RunOperator() {
    std::vector<CommId> communicators;
    for (RandomJob& job : jobs_) {
      if (job.running()) communicators.push_back(job.id());
    }
    const std::string wrong = operator_->Act(communicators, random_);
    Expect(wrong.empty(), absl::StrCat("operators: ", wrong));
  }

  void CutRandomLane() {
    const auto& reports = control_->agent(RandomHost()).reports();
    if (reports.empty()) return;
    const auto& lanes =
        std::next(reports.begin(), static_cast<int>(Below(reports.size())))->second.lanes();
    if (lanes.empty()) return;
    if (!world_.CutLane(lanes[static_cast<int>(Below(lanes.size()))].local())) return;
    if (faults_.has_value()) faults_->NoteDisturbance();
    Count(RandomEvent::kLaneCut);
  }

  void CutRandomStream() {
    control_->CutStream(RandomHost());
    Count(RandomEvent::kStreamCut);
  }

  void KillOrRestartController() {
    Count(control_->alive() ? RandomEvent::kControllerKilled : RandomEvent::kControllerRestarted);
    control_->alive() ? control_->Kill() : control_->Restart();
  }

  void PartitionTwoHosts() {
    const int a = RandomHost();
    const int b = RandomHost();
    if (a == b || !world_.host(a).alive() || !world_.host(b).alive()) return;
    world_.network().Partition(world_.host(a).address(), world_.host(b).address());
    world_.RunFor(static_cast<int64_t>(Below(kMaxPartitionNs)));
    world_.network().Heal(world_.host(a).address(), world_.host(b).address());
    if (faults_.has_value()) faults_->NoteDisturbance();
    Count(RandomEvent::kHostsPartitioned);
  }

  void KillDaemon() {
    const int dead = RandomHost();
    if (!world_.host(dead).alive()) return;
    Kill(dead);
    Count(RandomEvent::kDaemonKilled);
    if (Below(2) == 0) AwaitErrors();
  }

  void Kill(int host) {
    world_.Kill(host);
    for (RandomJob& job : jobs_) job.OnDaemonDied(host);
    if (hostile_tenants_.has_value()) hostile_tenants_->OnDaemonDied(host);
  }

  void RestartDaemon() {
    const int first = RandomHost();
    for (int h = first; h < first + hosts_; ++h) {
      if (!world_.host(h % hosts_).alive()) return Restart(h % hosts_);
    }
  }

  void Restart(int host) {
    world_.Restart(host);
    restarted_[static_cast<size_t>(host)] = true;
    Count(RandomEvent::kDaemonRestarted);
  }

  void KillProcess() {
    RandomJob* const job = jobs_.empty() ? nullptr : &jobs_[Below(jobs_.size())];
    if (job == nullptr || !job->running()) return;
    job->KillProcess(random_);
    Count(RandomEvent::kProcessKilled);
    if (Below(2) == 0) AwaitErrors();
  }

  // ---- Jobs that lost a rank or met a fault -----------------------------------------------------

  bool IsExplained(const RandomJob& job, const std::string& error) const {
    return faults_.has_value() && faults_->Explains(job.host_of_rank(), error, !job.formed());
  }

  void NoteFailures() {
    for (size_t j = 0; j < jobs_.size(); ++j) {
      RandomJob& job = jobs_[j];
      if (!job.running()) continue;
      const std::string failure = job.FindFailure();
      if (failure.empty()) continue;
      Expect(IsExplained(job, failure), absl::StrCat("job ", j, ": ", failure));
      job.FailByFault();
    }
  }

  void EndFaults() {
    if (!faults_.has_value()) return;
    const MonotonicNs until = faults_->EndAll();
    world_.RunFor(until - world_.clock().Now());  // for jobs that fail later
  }

  static bool AwaitsErrors(const RandomJob& job) {
    return job.lost() && !job.ended() && !job.AllSurvivorsFailed();
  }

  void AwaitErrors() {
    world_.RunUntil([&] { return std::ranges::none_of(jobs_, AwaitsErrors); }, kErrorBoundNs);
    EndLostJobs();
  }

  void EndLostJobs() {
    for (size_t j = 0; j < jobs_.size(); ++j) {
      RandomJob& job = jobs_[j];
      if (!job.lost() || job.ended()) continue;
      if (job.AllSurvivorsFailed()) {
        job.End();
        Count(job.failed_by_fault() ? RandomEvent::kJobFailedByFault : RandomEvent::kJobLost);
        continue;
      }
      const MonotonicNs delayed_until =
          faults_.has_value() ? faults_->DelayedUntil(job.host_of_rank()) : 0;
      Expect(world_.clock().Now() < std::max(job.lost_at(), delayed_until) + kErrorBoundNs,
             absl::StrCat("job ", j, ": rank lost, but ", job.FindUnawareSurvivor(),
                          " has no error after ", (world_.clock().Now() - job.lost_at()) / kNsPerMs,
                          " ms"));
    }
  }

  // ---- At the end -------------------------------------------------------------------------------

  bool AllPosted() const {
    return std::ranges::all_of(jobs_, [](const RandomJob& job) { return job.AllPosted(); });
  }

  void RestartAll() {
    for (int h = 0; h < hosts_; ++h) {
      if (!world_.host(h).alive()) Restart(h);
    }
  }

  void RunOneMoreJob() {
    StartJob();
    while (!AllPosted()) {
      jobs_[Below(jobs_.size())].PostOne(random_);
      if (Below(2) == 0) world_.RunFor(static_cast<int64_t>(Below(1500)) * kNsPerUs);
    }
  }

  void FinishJobs() {
    AwaitErrors();
    const auto over = [](const RandomJob& job) {
      return job.ended() || (job.lost() ? job.AllSurvivorsFailed() : job.IsFinished());
    };
    Expect(world_.RunUntil([&] { return std::ranges::all_of(jobs_, over); }, kTimeoutNs),
           "some rank does not finish");
    EndLostJobs();
    for (size_t j = 0; j < jobs_.size() && violation_.empty(); ++j) {
      if (!jobs_[j].running()) continue;
      const std::string wrong = jobs_[j].Check();
      Expect(wrong.empty(), absl::StrCat("job ", j, ": ", wrong));
      Count(RandomEvent::kOperationChecked, jobs_[j].operations());
    }
  }

  void Settle() {
    if (!control_->alive()) {
      control_->Restart();
      Count(RandomEvent::kControllerRestarted);
    }
    if (hostile_tenants_.has_value()) hostile_tenants_->Leave();
    const bool settled = world_.RunUntil(
        [&] {
          return FindStaleState().empty() && FindHostileState().empty() &&
                 FindOutdatedJob().empty();
        },
        kTimeoutNs);
    Expect(settled, absl::StrCat(FindOutdatedJob(), FindStaleState(), FindHostileState()));
    if (hostile_tenants_.has_value())
      Expect(hostile_tenants_->FindViolation().empty(), hostile_tenants_->FindViolation());
    if (faults_.has_value()) Expect(faults_->FindViolation().empty(), faults_->FindViolation());
    Expect(world_.longest_turn_ns() <= kLongestTurnNs,
           absl::StrCat("a daemon's turn took ", world_.longest_turn_ns() / kNsPerMs, " ms"));
  }

  std::string FindHostileState() const {
    return hostile_tenants_.has_value() ? hostile_tenants_->FindRemainingState() : "";
  }

  // REQUIRES: Check()ed jobs, as further operations report where the lanes are.
  void SettleLanes() {
    std::vector<CommId> running;
    for (RandomJob& job : jobs_) {
      if (job.running()) running.push_back(job.id());
    }
    std::string misplaced = "not checked";
    for (int i = 0; i < kMaxMoveRetries && !misplaced.empty(); ++i) {
      world_.RunFor(kNsPerSec);
      for (RandomJob& job : jobs_) {
        if (job.running()) job.PostOneMore();
      }
      const auto over = [](const RandomJob& job) { return !job.running() || job.IsFinished(); };
      Expect(world_.RunUntil([&] { return std::ranges::all_of(jobs_, over); }, kTimeoutNs),
             "some rank does not finish after the world has settled");
      world_.RunFor(kNsPerSec);
      misplaced = control_->With(
          [&](Coordinator& c) { return MisplacedLane(c.registry(), *control_, running); });
    }
    Expect(misplaced.empty(), misplaced);
  }

  // The first running communicator that does not run what the controller wants on all of its hosts.
  std::string FindOutdatedJob() {
    return control_->With([&](Coordinator& c) -> std::string {
      for (RandomJob& job : jobs_) {
        if (!job.running()) continue;
        const auto record = c.registry().communicators().find(job.id());
        if (record == c.registry().communicators().end()) {
          return absl::StrCat("the controller does not know communicator ", FormatCommId(job.id()));
        }
        for (int host : job.host_of_rank()) {
          const auto& report = control_->agent(host).reports().at(job.id());
          if (report.epoch() == record->second.Newest().epoch()) continue;
          return absl::StrCat(FormatCommId(job.id()), " is at epoch ", report.epoch(), " on h",
                              host, ", not ", record->second.Newest().epoch(), " (",
                              report.change_error(), ")");
        }
      }
      // Last: planning anew takes long.
      for (const Decision& decision : Decide(c.objects(), c.View()).changed) {
        const auto wanted = [&](RandomJob& job) {
          return job.running() && job.id() == decision.id;
        };
        if (std::ranges::any_of(jobs_, wanted)) {
          return absl::StrCat(FormatCommId(decision.id),
                              " does not run the wanted strategy: ", decision.change);
        }
      }
      return "";
    });
  }

  // The first daemon, or the controller, that still has ended communicators or processes.
  std::string FindStaleState() {
    for (int h = 0; h < hosts_; ++h) {
      if (!world_.host(h).alive()) continue;
      size_t processes = 0, communicators = 0;
      for (const RandomJob& job : jobs_) {
        const auto on_host = static_cast<size_t>(job.running() ? job.ProcessesOn(h) : 0);
        processes += on_host;
        communicators += on_host > 0 ? 1 : 0;
      }
      const Daemon& daemon = world_.host(h).daemon();
      if (daemon.sessions() == processes && daemon.communicators() == communicators) continue;
      return absl::StrCat("h", h, " has ", daemon.sessions(), " sessions and ",
                          daemon.communicators(), " communicators; expected ", processes,
                          " processes and ", communicators, " communicators");
    }
    return control_->With([&](Coordinator& c) -> std::string {
      const auto running = std::ranges::count_if(jobs_, &RandomJob::running);
      const size_t known = c.registry().communicators().size();
      if (known == static_cast<size_t>(running)) return "";
      return absl::StrCat("the controller knows ", known, " communicators, expected ", running);
    });
  }

  // Hosts log the first operation of each epoch.
  void CheckEpochs() {
    std::set<std::string> own;  // epochs of hostile communicators are not checked
    for (RandomJob& job : jobs_) own.insert(FormatCommId(job.id()));
    std::map<std::string, std::string> begins;  // by communicator and epoch
    for (int h = 0; h < hosts_; ++h) {
      for (const std::string& line : world_.host(h).log().lines) {
        const std::optional<SwitchLine> change = ParseSwitchLine(line);
        if (!change) continue;
        const std::string communicator(change->communicator);
        if (!own.contains(communicator)) continue;
        const std::string key = absl::StrCat(communicator, " epoch ", change->epoch);
        const std::string operation(change->operation);
        const auto [known, is_new] = begins.try_emplace(key, operation);
        Count(RandomEvent::kStrategyChanged, is_new ? 1 : 0);
        Expect(known->second == operation, absl::StrCat(key, " begins with ", operation, " on h", h,
                                                        ", elsewhere with ", known->second));
      }
    }
  }

  std::mt19937_64 random_;
  const int hosts_;
  std::vector<std::string> racks_;  // by host
  SimControl* control_ = nullptr;   // owned by world_
  SimWorld world_;
  std::deque<RandomJob> jobs_;
  std::optional<RandomOperator> operator_;
  std::optional<HostileTenants> hostile_tenants_;
  std::optional<RandomFaults> faults_;
  std::vector<bool> restarted_;  // by host: its daemon was restarted
  bool may_die_ = false;         // daemons and processes may die in this world
  std::string violation_;
  RandomWorldOutcome outcome_;
};

}  // namespace

RandomWorldOutcome RunRandomWorld(uint64_t seed, const RandomWorldOptions& options) {
  return RandomWorld(seed, options).Run();
}

}  // namespace mccs
