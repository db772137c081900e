#include "tests/sim/sim_world.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "service/device/mapping_threads.h"
#include "service/device/memory_mapper.h"

namespace mccs {
namespace {

// So many turns at one simulated time are a livelock.
constexpr int kMaxTurnsPerInstant = 1'000'000;

int64_t ThreadNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * kNsPerSec + now.tv_nsec;
}

int64_t OffsetOf(const SimWorldOptions& options, int host) {
  const auto at = static_cast<size_t>(host);
  return at < options.clock_offsets_ns.size() ? options.clock_offsets_ns[at] : 0;
}

}  // namespace

// Mapping and unmapping that take simulated time: each step of a job takes a random time from the
// seed.
class DelayedMappings final : public MappingRunner {
 public:
  // A step takes at most `max_step_ns`. LIFETIME: `clock` outlives this.
  DelayedMappings(const Clock& clock, uint64_t seed, int64_t max_step_ns)
      : clock_(clock), random_(seed), max_step_ns_(max_step_ns) {}

  void Start(Lane lane, std::unique_ptr<MappingJob> job) override {
    LaneOfJobs& own = lanes_[lane == Lane::kMap ? 0 : 1];
    if (own.jobs.empty()) own.next_step = clock_.Now() + Delay();
    own.jobs.Push(std::move(job));
  }

  std::unique_ptr<MappingJob> TakeFinished() override {
    for (LaneOfJobs& lane : lanes_) {
      while (!lane.jobs.empty() && lane.next_step <= clock_.Now()) {
        std::unique_ptr<MappingJob> job = lane.jobs.Pop();
        lane.next_step = clock_.Now() + Delay();
        if (job->Step() == MappingJob::Progress::kDone) return job;
        lane.jobs.Return(std::move(job));
      }
    }
    return nullptr;
  }

  // When TakeFinished next has work to do.
  MonotonicNs NextStepTime() const {
    MonotonicNs next = kNever;
    for (const LaneOfJobs& lane : lanes_) {
      if (!lane.jobs.empty()) next = std::min(next, lane.next_step);
    }
    return next;
  }

 private:
  struct LaneOfJobs {
    FairJobQueue jobs;
    MonotonicNs next_step = 0;
  };
  int64_t Delay() {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(max_step_ns_ + 1));
  }

  const Clock& clock_;
  std::mt19937_64 random_;
  const int64_t max_step_ns_;
  std::array<LaneOfJobs, 2> lanes_;
};

// Jobs for NICs, of which long ones take a fixed time; the others take none.
class DelayedRegistrations final : public MappingRunner {
 public:
  // LIFETIME: `clock` outlives this.
  DelayedRegistrations(const Clock& clock, int64_t long_ns) : clock_(clock), long_ns_(long_ns) {}

  void Start(Lane, std::unique_ptr<MappingJob> job) override { jobs_.push_back(std::move(job)); }
  std::unique_ptr<MappingJob> TakeFinished() override {
    while (!jobs_.empty() || NextStepTime() <= clock_.Now()) {
      std::deque<std::unique_ptr<MappingJob>>& from = jobs_.empty() ? long_ : jobs_;
      if (jobs_.empty()) due_.pop_front();
      std::unique_ptr<MappingJob> job = std::move(from.front());
      from.pop_front();
      const MappingJob::Progress progress = job->Step();
      if (progress == MappingJob::Progress::kDone) return job;
      if (progress == MappingJob::Progress::kMore) {
        jobs_.push_back(std::move(job));
        continue;
      }
      long_.push_back(std::move(job));
      due_.push_back(clock_.Now() + long_ns_);
    }
    return nullptr;
  }
  // When TakeFinished next has work to do, apart from new jobs.
  MonotonicNs NextStepTime() const { return due_.empty() ? kNever : due_.front(); }

 private:
  const Clock& clock_;
  const int64_t long_ns_;
  std::deque<std::unique_ptr<MappingJob>> jobs_;
  std::deque<std::unique_ptr<MappingJob>> long_;
  std::deque<MonotonicNs> due_;  // of those
};

Strategy MakeRingStrategy(Epoch epoch, const std::vector<HostIndex>& ring, int channels) {
  Strategy strategy;
  strategy.epoch = epoch;
  strategy.channels.resize(static_cast<size_t>(channels));
  for (ChannelStrategy& channel : strategy.channels) channel.ring = ring;
  strategy.lanes = {.slots = 4, .slot_bytes = 16u << 10};
  strategy.origin = "the test";
  return strategy;
}

std::string SimAddress(int host, int nic) {
  constexpr int kPerNetwork = 254;
  return absl::StrCat("10.", host / kPerNetwork, ".", nic, ".", host % kPerNetwork + 1);
}

std::string SimHostName(int host) { return absl::StrCat("h", host); }

SimHost::SimHost(const SimWorldOptions& options, int index, SimClock& clock, SimNetwork& network,
                 FakeFabric* fabric, SimControllerInterface* controller)
    : options_(options),
      index_(index),
      network_(network),
      controller_interface_(controller),
      address_(SimAddress(index)),
      clock_(clock, OffsetOf(options, index)),
      random_(options.seed * 1000 + static_cast<uint64_t>(index)),
      security_(options.authority == 0
                    ? nullptr
                    : std::make_unique<SimSecurity>(options.authority, SimHostName(index))) {
  for (int nic = 1; nic < options.nics; ++nic) {
    network.AddAddress(address_, SimAddress(index, nic));
  }
  for (int nic = 0; nic < options.nics && fabric != nullptr; ++nic) {
    const std::string address = SimAddress(index, nic);
    FakeNic& verbs = fabric->AddNic(absl::StrCat("h", index, "_", nic), address, address);
    nics_.push_back({.address = {address}, .verbs = &verbs});
  }
  Start();
}

Device& SimHost::TheDevice() {
  if (!options_.kernels) return *devices_.back();
  const std::span bytes(kSimKernelImage);
  return *kernel_devices_.emplace_back(std::make_unique<KernelDevice>(
      *devices_.back(), *MakeKernelImage(std::as_bytes(bytes), kSimKernelArchitectures)));
}

void SimHost::Start() {
  MCCS_CHECK(!alive());
  auto importer = std::make_unique<LocalImporter>(/*maps_gpu_memory=*/!options_.kernels);
  importer_ = importer.get();
  std::unique_ptr<DelayedMappings> mappings;
  if (options_.mapping_step_ns > 0) {
    mappings = std::make_unique<DelayedMappings>(
        clock_, options_.seed * 1000 + static_cast<uint64_t>(index_), options_.mapping_step_ns);
  }
  mappings_ = mappings.get();
  devices_.push_back(std::make_unique<FailingDevice>(std::make_unique<CpuDevice>(
      CpuDeviceOptions{.workers = 0}, std::move(importer), std::move(mappings))));
  if (!nics_.empty()) {
    std::unique_ptr<DelayedRegistrations> registrations;
    if (options_.registration_ns > 0)
      registrations = std::make_unique<DelayedRegistrations>(clock_, options_.registration_ns);
    registrations_ = registrations.get();
    rdma_ = std::make_unique<RdmaTransport>(
        RdmaTransportOptions{.nics = nics_, .runner = std::move(registrations)}, random_, clock_);
  }
  const auto at = static_cast<size_t>(index_);
  const Position position{.pod = "",
                          .rack = at < options_.racks.size() ? options_.racks[at] : "",
                          .host = SimHostName(index_)};
  ControllerLink& link =
      controller_interface_ == nullptr
          ? controller_
          : controller_interface_->AddHost(index_, position, ToString(Endpoint{address_, kSimPort}),
                                           clock_);
  auto daemon = Daemon::Make({.clock = &clock_,
                              .random = &random_,
                              .log = &log_,
                              .network = &network_.HostNetwork(address_),
                              .transport = &transport_,
                              .rdma = rdma_.get(),
                              .security = security_.get(),
                              .device = &TheDevice(),
                              .controller = &link},
                             {.position = position,
                              .listen = {options_.nics == 1 ? address_ : "0.0.0.0", kSimPort},
                              .advertise = {.host = address_, .port = 0},
                              .channels = options_.channels,
                              .lanes = options_.lanes,
                              .skew = options_.skew,
                              .algorithms = options_.algorithms,
                              .buffers = options_.buffers,
                              .limits = options_.limits,
                              .dscp_by_class = options_.dscp_by_class,
                              .denies_unknown_tenants = options_.denies_unknown_tenants,
                              .expects_id_key = options_.expects_id_key});
  MCCS_CHECK(daemon.ok());
  daemon_ = std::move(*daemon);
  auto tenant_listener = std::make_unique<SimTenantListener>();
  tenant_listener_ = tenant_listener.get();
  daemon_->AddListener(std::move(tenant_listener));
}

MonotonicNs SimHost::NextDeadline() {
  MonotonicNs deadline = daemon_->NextDeadline();
  if (mappings_ != nullptr) deadline = std::min(deadline, mappings_->NextStepTime());
  if (registrations_ != nullptr) deadline = std::min(deadline, registrations_->NextStepTime());
  const bool never = deadline == kNever;
  return never ? deadline : clock_.ToBaseClock(deadline);
}

void SimHost::SetOutOfMemory(bool is) {
  const absl::Status error =
      is ? absl::ErrnoToStatus(ENOMEM, "no memory on this host") : absl::OkStatus();
  importer().FailWith(error);
  device().FailMemory(error);
}

void SimHost::Kill(SimNetwork& network) {
  network.CutHost(address_);
  network.SetOutOfDescriptors(address_, false);  // the limit is the process's
  daemon_.reset();
  rdma_.reset();
}

namespace {

// MCCS_SIM_TRANSPORT=verbs: lanes use RDMA in all worlds. MCCS_SIM_DEVICE=kernels: kernels run all
// plans.
SimWorldOptions WithTransport(SimWorldOptions options) {
  const char* const transport = std::getenv("MCCS_SIM_TRANSPORT");
  const bool verbs = transport != nullptr && std::string_view(transport) == "verbs";
  if (verbs && !options.verbs.has_value()) options.verbs = FakeVerbsOptions{};
  const char* const device = std::getenv("MCCS_SIM_DEVICE");
  options.kernels |= device != nullptr && std::string_view(device) == "kernels";
  return options;
}

}  // namespace

SimWorld::SimWorld(const SimWorldOptions& options)
    : options_(WithTransport(options)), network_(clock_, options.seed, options.network) {
  if (options.controller) controller_ = options.controller(clock_);
  if (options_.verbs.has_value()) {
    fabric_ = std::make_unique<FakeFabric>(clock_, options.seed, *options_.verbs);
    fabric_->reachable = [this](const FakeNic& from, const FakeNic& to) {
      return !network_.Blocked(from.host(), to.host()) &&
             !network_.Blocked(to.host(), from.host());  // acknowledgements
    };
  }
  for (int h = 0; h < options.hosts; ++h) {
    hosts_.emplace_back(options_, h, clock_, network_, fabric_.get(), controller_.get());
  }
}

void SimWorld::Kill(int host) {
  this->host(host).Kill(network_);
  if (controller_ != nullptr) controller_->KillHost(host);
}

size_t SimWorld::communicators() {
  size_t sum = 0;
  for (SimHost& host : hosts_) sum += host.alive() ? host.daemon().communicators() : 0;
  return sum;
}

void SimWorld::SetLink(int host, int nic, SimNetwork::Link link) {
  network_.SetLink(SimAddress(host, nic), link);
  if (link != SimNetwork::Link::kLost) {
    this->host(host).nic(nic).SetPort(link == SimNetwork::Link::kUp);
  }
}

void SimWorld::Restart(int host) { this->host(host).Start(); }

bool SimWorld::CutLane(const std::string& local) {
  const absl::StatusOr<Endpoint> end = ParseEndpoint(local);
  return end.ok() && network_.CutStream(*end);
}

SimTenant& SimWorld::AddTenant(int host, const std::string& tenant, const std::string& cgroup) {
  return tenants_.emplace_back(this->host(host).tenant_listener(), this->host(host).importer(),
                               TenantIdentity{tenant, next_process_++, cgroup});
}

bool SimWorld::GetUniqueId(SimTenant& tenant) {
  tenant.RequestUniqueId();
  return RunUntil([&] { return tenant.has_unique_id(); });
}

void SimWorld::PollAll() {
  for (int turn = 0; turn < kMaxTurnsPerInstant; ++turn) {
    bool moved = false;
    for (SimHost& host : hosts_) {
      if (host.alive()) moved |= PollDaemon(host);
    }
    for (SimTenant& tenant : tenants_) moved |= tenant.Poll();
    for (SimParticipant* participant : participants_) moved |= participant->Poll();
    if (controller_ != nullptr) moved |= controller_->Poll();
    if (!moved) return;
  }
  MCCS_CHECK(false);
}

// Reading the thread's processor time takes a system call. So it is read every kReadingNs and after
// long turns: such a turn took at most the processor time since the last reading.
bool SimWorld::PollDaemon(SimHost& host) {
  if (options_.measures_turns) {
    const int64_t begin = ThreadNs();
    const bool moved = host.daemon().Poll();
    // The world gives every daemon a turn at each event. A daemon of its own would sleep then.
    if (moved) host.AddTurn(ThreadNs() - begin);
    return moved;
  }
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kReadingNs{kNsPerMs};
  const Steady::time_point before = Steady::now();
  if (before - last_reading_ > kReadingNs) {
    last_reading_ = before;
    last_thread_ns_ = ThreadNs();
  }
  const bool moved = host.daemon().Poll();
  const Steady::time_point after = Steady::now();
  const int64_t took = std::chrono::nanoseconds(after - before).count();
  if (took > kLongTurnNs) {
    const int64_t now = ThreadNs();
    longest_turn_ns_ = std::max(longest_turn_ns_, std::min(took, now - last_thread_ns_));
    last_reading_ = after;
    last_thread_ns_ = now;
  }
  return moved;
}

MonotonicNs SimWorld::NextEvent() const {
  MonotonicNs next = network_.NextEventTime().value_or(kNever);
  if (fabric_ != nullptr) next = std::min(next, fabric_->NextEventTime().value_or(kNever));
  if (controller_ != nullptr) next = std::min(next, controller_->NextEvent());
  for (const SimParticipant* participant : participants_)
    next = std::min(next, participant->NextEvent());
  for (const SimHost& host : hosts_) {
    if (host.alive()) next = std::min(next, const_cast<SimHost&>(host).NextDeadline());
  }
  return next;
}

bool SimWorld::RunUntil(const std::function<bool()>& done, int64_t limit_ns) {
  last_thread_ns_ = ThreadNs();
  const MonotonicNs limit = clock_.Now() + limit_ns;
  for (;;) {
    PollAll();
    if (done()) return true;
    // Always advances: PollAll has served every deadline that is due.
    const MonotonicNs next = std::max(NextEvent(), clock_.Now() + 1);
    if (next > limit) {
      AdvanceTo(limit);
      return false;
    }
    AdvanceTo(next);
  }
}

void SimWorld::AdvanceTo(MonotonicNs time) {
  network_.AdvanceTo(time);
  if (fabric_ != nullptr) fabric_->Step();
}

void SimWorld::RunFor(int64_t ns) {
  RunUntil([] { return false; }, ns);
}

}  // namespace mccs
