#include "tests/sim/random_world.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"
#include "controller/planner.h"
#include "tests/sim/random_job.h"
#include "tests/sim/sim_control.h"

namespace mccs {
namespace {

// Simulated. A change that was given up is proposed again after 30 s.
constexpr int64_t kPatienceNs = 300 * kNsPerSec;
// A lane may be without a connection for 700 ms.
constexpr int64_t kLongestPartNs = 200 * kNsPerMs;

class RandomWorld {
 public:
  explicit RandomWorld(uint64_t seed)
      : random_(seed), hosts_(2 + static_cast<int>(Below(4))), world_(MakeOptions(seed)) {}

  RandomWorldOutcome Run() {
    outcome_.violation = RunAll();
    return outcome_;
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  int SomeHost() { return static_cast<int>(Below(static_cast<uint64_t>(hosts_))); }

  SimWorldOptions MakeOptions(uint64_t seed) {
    SimWorldOptions options{.seed = seed, .hosts = hosts_, .network = {}};
    options.channels = 1 + static_cast<int>(Below(3));
    options.skew = 1 + static_cast<uint32_t>(Below(3));
    for (int h = 0; h < hosts_; ++h) options.racks.push_back(absl::StrCat("r", Below(3)));
    racks_ = options.racks;
    options.controller = [this, seed](SimClock& clock) {
      auto control = std::make_unique<SimControl>(clock, seed);
      control_ = control.get();
      return control;
    };
    return options;
  }

  std::string RunAll() {
    if (Below(4) > 0) Apply();
    for (uint64_t j = 0; j < 1 + Below(3); ++j) {
      world_.RunFor(static_cast<int64_t>(Below(2000)) * kNsPerUs);
      jobs_.emplace_back(world_, hosts_, random_);
      if (!jobs_.back().Form()) return absl::StrCat("job ", j, " does not form");
      if (Below(3) == 0) Apply();
    }
    const bool kills = Below(4) == 0;
    for (uint64_t step = 0; step < 40 || !AllPosted(); ++step) {
      Step();
      if (kills && step == 20) KillADaemon();
    }
    const auto over = [](const RandomJob& job) { return job.Over(); };
    if (!world_.RunUntil([&] { return std::ranges::all_of(jobs_, over); }, kPatienceNs)) {
      return "some rank waits for ever";
    }
    for (size_t j = 0; j < jobs_.size(); ++j) {
      if (jobs_[j].lost()) continue;
      if (const std::string wrong = jobs_[j].Check(); !wrong.empty()) {
        return absl::StrCat("job ", j, ": ", wrong);
      }
      outcome_.operations += jobs_[j].operations();
    }
    if (!control_->alive()) control_->Restart();
    if (!world_.RunUntil([&] { return Converged(); }, kPatienceNs)) return WhoIsBehind();
    return CheckEpochs();
  }

  bool AllPosted() const {
    return std::ranges::all_of(jobs_, [](const RandomJob& job) { return job.AllPosted(); });
  }

  void Step() {
    const uint64_t kind = Below(100);
    if (kind < 70) {
      jobs_[Below(jobs_.size())].PostOne(random_);
    } else if (kind < 78) {
      Apply();
    } else if (kind < 86) {
      CutALane();
    } else if (kind < 89) {
      control_->CutStream(SomeHost());
    } else if (kind < 92) {
      control_->alive() ? control_->Kill() : control_->Restart();
    } else if (kind < 94) {
      PartTwoHosts();
    }
    if (Below(2) == 0) world_.RunFor(static_cast<int64_t>(Below(1500)) * kNsPerUs);
    if (Below(30) == 0) world_.RunFor(static_cast<int64_t>(Below(5000)) * kNsPerMs);
  }

  void CutALane() {
    const auto& reports = control_->agent(SomeHost()).reports();
    if (reports.empty()) return;
    const auto& lanes =
        std::next(reports.begin(), static_cast<int>(Below(reports.size())))->second.lanes;
    if (!lanes.empty()) world_.CutLane(lanes[Below(lanes.size())].local);
  }

  void PartTwoHosts() {
    const int a = SomeHost();
    const int b = SomeHost();
    if (a == b || !world_.host(a).alive() || !world_.host(b).alive()) return;
    world_.network().Part(world_.host(a).address(), world_.host(b).address());
    world_.RunFor(static_cast<int64_t>(Below(kLongestPartNs)));
    world_.network().Heal(world_.host(a).address(), world_.host(b).address());
  }

  void KillADaemon() {
    const int dead = SomeHost();
    world_.Kill(dead);
    for (RandomJob& job : jobs_) job.Lose(dead);
  }

  // Other policies, for all or for one communicator.
  void Apply() {
    std::string text = TopologyText() + PolicyText("all", "");
    if (Below(2) == 0) text += AlgorithmText();
    if (!jobs_.empty()) {
      RandomJob& job = jobs_[Below(jobs_.size())];
      absl::StrAppend(&text, PolicyText("one", absl::StrCat("  for: {communicators: [",
                                                            FormatCommId(job.id()), "]}\n")));
    }
    auto read = ReadObjects({{"random.yaml", text}});
    MCCS_CHECK(read.ok());
    auto plan = PlanApply({}, *std::move(read));
    MCCS_CHECK(plan.ok());
    control_->SetObjects(std::make_shared<const ObjectSet>(std::move(plan->next)));
  }

  // Two leaves and two spines, which the operator routes by source port.
  std::string TopologyText() {
    std::string text =
        "apiVersion: mccs/v1\nkind: Topology\nmetadata: {name: t}\nspec:\n"
        "  racks: [{name: \"r[0-2]\"}]\n  switches: [{name: \"leaf[0-1],spine[0-1]\"}]\n  hosts:\n";
    for (int h = 0; h < hosts_; ++h) {
      absl::StrAppend(&text, "    - {name: h", h, ", rack: ", racks_[static_cast<size_t>(h)],
                      ", gpus: 8, nics: [{name: nic0, switch: leaf", h % 2,
                      ", capacity: 1Gbps, address: ", world_.host(h).address(), "}]}\n");
    }
    absl::StrAppend(&text,
                    "  links: [{between: [\"leaf[0-1]\", \"spine[0-1]\"], capacity: 1Gbps}]\n"
                    "  source_ports:\n    mapping: rules\n    candidates: 61000-64999\n    rules:\n"
                    "      - {ports: 61000-62999, via: spine0}\n"
                    "      - {ports: 63000-64999, via: spine1}\n");
    return text;
  }

  std::string PolicyText(const std::string& name, const std::string& whom) {
    return absl::StrCat("---\napiVersion: mccs/v1\nkind: Policy\nmetadata: {name: ", name,
                        "}\nspec:\n  policy: ", SomePolicy(), whom);
  }

  // An algorithm for calls of some sizes.
  std::string AlgorithmText() {
    const char* const algorithms[] = {"ring", "tree", "direct"};
    return absl::StrCat(
        "---\napiVersion: mccs/v1\nkind: Policy\nmetadata: {name: small}\nspec:\n"
        "  policy: algorithm\n  parameters: {algorithm: ",
        algorithms[Below(3)], "}\n  for: {sizes: {below: ", 1 + Below(65536), "}}\n");
  }

  // Its name and parameters.
  std::string SomePolicy() {
    switch (Below(5)) {
      case 0:
        return "fair_flow\n";
      case 1:
        return "fair_flow\n  parameters: {avoid_links: [leaf0-spine1]}\n";
      case 2:
        return absl::StrCat("rank_order\n  parameters: {port_seed: ", Below(100), "}\n");
      default:
        break;
    }
    std::vector<std::string> order;
    for (int h = 0; h < hosts_; ++h) order.push_back(absl::StrCat("h", h));
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(Below(order.size() + 1));
    const uint64_t first = 20'000 + 100 * Below(400);
    return absl::StrCat("locality_ring\n  parameters: {order: [", absl::StrJoin(order, ", "),
                        "], source_ports: {first: ", first, ", last: ", first + 99, "}}\n");
  }

  // ---- In the end -------------------------------------------------------------------------------

  // Every communicator that lives runs what the controller wants, on all of its hosts.
  bool Converged() { return WhoIsBehind().empty(); }

  std::string WhoIsBehind() {
    return control_->With([&](Coordinator& c) -> std::string {
      const Decisions decisions = Decide(c.objects(), c.View());
      for (RandomJob& job : jobs_) {
        if (job.lost()) continue;
        const auto record = c.registry().communicators().find(job.id());
        if (record == c.registry().communicators().end()) {
          return absl::StrCat("the controller does not know ", FormatCommId(job.id()));
        }
        for (const Decision& decision : decisions.changed) {
          if (decision.id == job.id()) {
            return absl::StrCat(FormatCommId(job.id()), " should run otherwise: ", decision.change);
          }
        }
        for (int host : job.host_of_rank()) {
          const auto& report = control_->agent(host).reports().at(job.id());
          if (report.epoch.value() == record->second.Newest().epoch()) continue;
          return absl::StrCat(FormatCommId(job.id()), " is at epoch ", report.epoch.value(),
                              " on h", host, ", not ", record->second.Newest().epoch(), " (",
                              report.change_trouble, ")");
        }
      }
      return "";
    });
  }

  // Hosts say in their logs from which operation on an epoch is in force.
  std::string CheckEpochs() {
    std::map<std::string, std::string> begins;  // by communicator and epoch
    for (int h = 0; h < hosts_; ++h) {
      for (const std::string& line : world_.host(h).log().lines) {
        const std::vector<std::string> words = absl::StrSplit(line, ' ');
        const auto epoch = std::ranges::find(words, "epoch");
        if (words.end() - epoch < 5 || epoch[2] != "from") continue;
        const std::string key = absl::StrCat(words[1], " epoch ", epoch[1]);
        const std::string& operation = epoch[4];
        const auto [known, is_new] = begins.try_emplace(key, operation);
        outcome_.changes += is_new ? 1 : 0;
        if (known->second != operation) {
          return absl::StrCat(key, " begins with ", operation, " on h", h, ", elsewhere with ",
                              known->second);
        }
      }
    }
    return "";
  }

  std::mt19937_64 random_;
  const int hosts_;
  std::vector<std::string> racks_;  // by host
  SimControl* control_ = nullptr;   // world_'s
  SimWorld world_;
  std::deque<RandomJob> jobs_;
  RandomWorldOutcome outcome_;
};

}  // namespace

RandomWorldOutcome RunRandomWorld(uint64_t seed) { return RandomWorld(seed).Run(); }

}  // namespace mccs
