#include "tests/sim/hostile_tenant.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr size_t kBufferBytes = 8 << 10;
// More than a call for one size can overrun when it runs for another size.
constexpr size_t kForeignBytes = 72 << 10;
constexpr char kForeignPattern[] = "NOTYOURS";
constexpr size_t kPatternBytes = sizeof(kForeignPattern) - 1;
constexpr size_t kBuffers = 2;  // per process
constexpr uint64_t kElements = kBufferBytes / sizeof(float);

void FillWithForeignPattern(std::vector<std::byte>& memory) {
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<std::byte>(kForeignPattern[i % kPatternBytes]);
}

constexpr size_t OffsetOf(size_t process, size_t buffer) {
  return kForeignBytes + (process * kBuffers + buffer) * (kBufferBytes + kForeignBytes);
}

}  // namespace

HostileTenant::HostileTenant(SimWorld& world, const std::vector<int>& hosts, std::string address,
                             uint64_t authority, uint64_t seed, RandomCounts& counts)
    : world_(world), address_(std::move(address)), counts_(counts), dice_(seed) {
  Count(RandomEvent::kHostileTenantStarted);
  ChooseCertificate(authority);
  same_size_ = Below(4) > 0;
  processes_.resize(1 + Below(3) + (same_size_ ? 0 : 1));
  const size_t played = processes_.size() > 1 ? Below(3) : 1 + Below(2);
  for (size_t h = 0; h < played; ++h) played_.emplace_back(1 + Below(2));
  if (certificate_ != nullptr && played_.size() > 1) played_.resize(1);  // it proves one host
  ranks_ = static_cast<int>(processes_.size());
  for (const auto& of_host : played_) ranks_ += static_cast<int>(of_host.size());

  std::vector<int> numbers(static_cast<size_t>(ranks_));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), dice_);
  for (auto& of_host : played_) {
    for (int& rank : of_host) {
      rank = numbers.back();
      numbers.pop_back();
    }
    std::ranges::sort(of_host);
  }

  // With all processes on one host, its daemon receives several sizes.
  const bool together = !same_size_ && Below(3) > 0;
  const int host = hosts[Below(hosts.size())];
  memory_.resize(OffsetOf(processes_.size(), 0));
  FillWithForeignPattern(memory_);
  for (size_t p = 0; p < processes_.size(); ++p) {
    Process& process = processes_[p];
    process.host = together ? host : hosts[Below(hosts.size())];
    process.rank = numbers[p];
    process.tenant = &world_.AddTenant(process.host, kHostileTenantName);
    for (size_t b = 0; b < kBuffers; ++b) {
      process.buffers[b] = memory_.data() + OffsetOf(p, b);
      std::fill_n(process.buffers[b], kBufferBytes, std::byte{1});
      process.tenant->Register(process.buffers[b], kBufferBytes);
    }
  }
  for (size_t c = 0; c < 40; ++c) {
    Call call{.kind = static_cast<OpKind>(1 + Below(kOpKinds - 1)),
              .count = kElements / static_cast<uint64_t>(ranks_),
              .root = static_cast<int>(Below(static_cast<uint64_t>(ranks_)))};
    // Fits the buffers if the root names a size of 1 rank; overruns them at the true size.
    if (same_size_ ? Below(8) == 0 : Below(2) == 0) {
      call = {.kind = Below(2) == 0 ? OpKind::kGather : OpKind::kScatter,
              .count = kElements / (1 + Below(2)),
              .root = processes_.back().rank};
    }
    if (HasPeer(call.kind)) call.count = kHostileMessageElements;
    if (call.kind == OpKind::kWaitSignal) call.count = 1;
    calls_.push_back(call);
  }
  is_rendezvous_ = Below(4) > 0;
  invalid_calls_ = Below(3) == 0;
  control_calls_ = Below(2) == 0;
  if (is_rendezvous_) {
    Begin(MakeUniqueId());
  } else {
    processes_.front().tenant->RequestUniqueId();
  }
}

void HostileTenant::ChooseCertificate(uint64_t authority) {
  if (authority == 0) return;
  const uint64_t kind = Below(4);
  must_fail_ = kind < 2;
  if (kind == 0) return Count(RandomEvent::kPeerWithoutCertificate);
  Count(must_fail_ ? RandomEvent::kPeerWithForeignCertificate : RandomEvent::kPeerWithCertificate);
  certificate_ = std::make_unique<SimSecurity>(must_fail_ ? authority + 1 : authority, address_);
}

wire::UniqueId HostileTenant::MakeUniqueId() {
  wire::UniqueId id = mccs::MakeUniqueId(address_, 7400, 0);
  id.guessable = Below(6) == 0 ? 1 : 0;
  id.derived = Below(6) == 0 ? 1 : 0;
  id.comm_id = dice_();
  for (uint8_t& byte : id.secret) byte = static_cast<uint8_t>(dice_());
  return id;
}

void HostileTenant::Begin(const wire::UniqueId& id) {
  HostilePeerOptions options{.address = address_,
                             .seed = dice_(),
                             .id = CommId(id.comm_id),
                             .secret = SecretOf(id),
                             .tenant = kHostileTenantName,
                             .security = certificate_.get(),
                             .host = certificate_ != nullptr ? address_ : "liar",
                             .must_fail = must_fail_,
                             .ranks = ranks_,
                             .daemons = {},
                             .played = played_,
                             .rendezvous = std::nullopt,
                             .world_daemons = {},
                             .foreign_pattern = kForeignPattern};
  if (!is_rendezvous_) options.rendezvous = Endpoint{std::string(id.host), id.port};
  for (const Process& process : processes_) {
    const std::string name = absl::StrCat("h", process.host);
    const auto known = std::ranges::find(options.daemons, name, &HostilePeerOptions::Daemon::name);
    auto& daemon = known != options.daemons.end() ? *known : options.daemons.emplace_back();
    daemon.name = name;
    daemon.endpoint = world_.host(process.host).daemon().endpoint();
    daemon.ranks.push_back(process.rank);
    std::ranges::sort(daemon.ranks);
    options.world_daemons.push_back(daemon.endpoint);
  }
  peer_ = std::make_unique<HostilePeer>(world_, std::move(options), counts_);
  world_.AddParticipant(*peer_);
  for (Process& process : processes_) {
    int named_ranks = ranks_;
    int named_rank = process.rank;
    if (!same_size_ && &process != &processes_.front() && Below(3) > 0) {
      const int sizes[] = {process.rank + 1, ranks_ - 1, ranks_ + 1, 2 * ranks_, 64, 1 << 20};
      named_ranks = sizes[Below(std::size(sizes))];
      Count(RandomEvent::kNamedOtherSize);
    }
    if (!same_size_ && Below(12) == 0) {
      named_rank = static_cast<int>(RandomBoundaryNumber(static_cast<uint64_t>(ranks_), dice_));
      Count(RandomEvent::kNamedOtherRank);
    }
    process.comm = &process.tenant->Init(id, named_ranks, named_rank);
  }
}

void HostileTenant::Act() {
  if (has_left_) return;
  if (peer_ == nullptr) {
    SimTenant& first = *processes_.front().tenant;
    const bool all_there = std::ranges::all_of(processes_, &Process::alive);
    if (all_there && first.has_unique_id()) Begin(first.unique_id());
    return;
  }
  Process& process = processes_[Below(processes_.size())];
  if (!process.alive || process.comm == nullptr || !process.comm->answered) return;
  if (process.comm->memory.data() == nullptr) return;
  if (control_calls_ && Below(8) == 0) {
    Control(process);
  } else {
    PostNext(process);
  }
}

wire::BufferRef HostileTenant::BufferOf(const Process& process, int which) const {
  return {.id = process.tenant->BufferAt(process.buffers[which]), .reserved = 0, .offset = 0};
}

// All processes make the same calls in the same order, apart from the attacks.
void HostileTenant::PostNext(Process& process) {
  const wire::CommRegion& region = process.comm->region();
  const bool full = region.tail.load() - region.head.load() >= wire::kRingRecords;
  if (full || process.next == calls_.size()) return;
  const Call& next = calls_[process.next++];
  SimCall call{.kind = next.kind,
               .root = next.root,
               .count = next.count,
               .send = BufferOf(process, 0),
               .recv = BufferOf(process, 1),
               .window = next.kind == OpKind::kPut ? uint64_t{1} : 0};
  if (invalid_calls_ && Below(8) == 0) {
    call.root = static_cast<int>(RandomBoundaryNumber(static_cast<uint64_t>(ranks_), dice_));
    if (Below(4) == 0) call.root = 1'000'000;
    Count(HasPeer(call.kind) ? RandomEvent::kInvalidPeer : RandomEvent::kInvalidRoot);
  }
  if (invalid_calls_ && Below(8) == 0) {
    wire::BufferRef& side = Below(2) == 0 ? call.send : call.recv;
    switch (Below(4)) {
      case 0:
        side.offset = RandomBoundaryNumber(kBufferBytes, dice_);
        break;
      case 1:
        side.offset = kBufferBytes - call.count * sizeof(float) + sizeof(float);
        break;
      case 2:
        side.id = static_cast<uint32_t>(RandomBoundaryNumber(side.id, dice_));
        break;
      default:
        call.count = RandomBoundaryNumber(kElements, dice_);
    }
    Count(RandomEvent::kInvalidRange);
  }
  process.tenant->Post(*process.comm, call);
}

void HostileTenant::Control(Process& process) {
  SimTenant& tenant = *process.tenant;
  Count(RandomEvent::kOtherControlCall);
  // Calls that end the communicator are rare.
  switch (Below(20)) {
    case 0:
      tenant.Abort(*process.comm);
      break;
    case 1:
      tenant.Destroy(*process.comm);
      break;
    case 2:
      tenant.Revoke(*process.comm);
      break;
    case 3:
      tenant.Suspend(*process.comm, Below(2) == 0);
      break;
    case 4:
      tenant.Shrink(*process.comm, {static_cast<int>(RandomBoundaryNumber(1, dice_))},
                    Below(2) == 0);
      break;
    case 5:
      tenant.Grow(*process.comm, static_cast<int>(RandomBoundaryNumber(8, dice_)));
      break;
    case 6:
      tenant.Release(process.buffers[Below(kBuffers)]);
      Count(RandomEvent::kReleasedInUse);
      break;
    case 7:
      if (Below(3) > 0) return;
      tenant.Kill();
      process.alive = false;
      Count(RandomEvent::kHostileProcessKilled);
      break;
    case 8:
      tenant.OpenWindow(*process.comm, BufferOf(process, 1),
                        RandomBoundaryNumber(kBufferBytes, dice_));
      break;
    default:
      tenant.Split(*process.comm, static_cast<int>(Below(2)), process.rank);
  }
}

void HostileTenant::OnDaemonDied(int host) {
  for (Process& process : processes_) {
    if (process.host == host) process.alive = false;
  }
}

void HostileTenant::Leave() {
  if (std::exchange(has_left_, true)) return;
  for (Process& process : processes_) {
    const SimRank* const comm = process.comm;
    if (comm != nullptr && comm->answered) {
      const bool rejected = comm->status.error != wire::ErrorClass::kNone;
      if (rejected) Count(RandomEvent::kHostileInitRejected);
      if (!rejected && !comm->failed()) counts_.Add(RandomEvent::kHostileCallDone, comm->done());
    }
    process.tenant->Kill();
    process.alive = false;
  }
  if (peer_ != nullptr) peer_->Leave();
}

std::string HostileTenant::FindViolation() const {
  if (peer_ != nullptr && peer_->has_foreign_bytes()) {
    return "other tenants' memory was sent over its lanes";
  }
  if (peer_ != nullptr && must_fail_ && peer_->had_connection()) {
    return "a daemon accepted a connection without a certificate of the cluster";
  }
  std::vector<std::byte> must(memory_.size());
  FillWithForeignPattern(must);
  for (size_t p = 0; p < processes_.size(); ++p) {
    for (size_t b = 0; b < kBuffers; ++b) {
      const std::byte* const own = memory_.data() + OffsetOf(p, b);
      const std::string_view held(reinterpret_cast<const char*>(own), kBufferBytes);
      if (held.find(kForeignPattern) != std::string_view::npos) {
        return absl::StrCat("other tenants' memory was read into buffer ", b, " of its rank ",
                            processes_[p].rank);
      }
      std::copy_n(own, kBufferBytes, must.begin() + static_cast<ptrdiff_t>(OffsetOf(p, b)));
    }
  }
  const auto differs = std::ranges::mismatch(memory_, must);
  if (differs.in1 == memory_.end()) return "";
  return absl::StrCat("other tenants' memory was written, at byte ", differs.in1 - memory_.begin(),
                      " of ", memory_.size());
}

// ---- All hostile tenants of a world -------------------------------------------------------------

HostileTenants::HostileTenants(SimWorld& world, uint64_t authority, uint64_t seed,
                               RandomCounts& counts)
    : world_(world), authority_(authority), counts_(counts), dice_(~seed), expected_(dice_() % 4) {}

void HostileTenants::Act(const std::vector<int>& hosts) {
  if (expected_ > 0 && !hosts.empty() && dice_() % 8 == 0) {
    --expected_;
    hostile_tenants_.emplace_back(world_, hosts,
                                  absl::StrCat("10.66.0.", hostile_tenants_.size() + 1), authority_,
                                  dice_(), counts_);
  }
  for (HostileTenant& hostile_tenant : hostile_tenants_) {
    if (dice_() % 2 == 0) hostile_tenant.Act();
  }
}

void HostileTenants::OnDaemonDied(int host) {
  for (HostileTenant& hostile_tenant : hostile_tenants_) hostile_tenant.OnDaemonDied(host);
}

void HostileTenants::Leave() {
  expected_ = 0;
  for (HostileTenant& hostile_tenant : hostile_tenants_) hostile_tenant.Leave();
}

std::string HostileTenants::FindRemainingState() const {
  for (const HostileTenant& hostile_tenant : hostile_tenants_) {
    const size_t streams = world_.network().half_closed_streams(hostile_tenant.address());
    if (streams == 0) continue;
    return absl::StrCat("daemons still have ", streams, " connections with the hostile tenant at ",
                        hostile_tenant.address(), ", which has left");
  }
  for (int h = 0; h < world_.hosts() && !hostile_tenants_.empty(); ++h) {
    if (!world_.host(h).alive()) continue;
    const auto has = world_.host(h).daemon().counters()->Of(kHostileTenantName);
    const auto communicators = has->forming.value() + has->active.value() + has->failed.value();
    if (communicators == 0 && has->sessions.value() == 0 && has->buffers.value() == 0 &&
        has->buffer_bytes.value() == 0) {
      continue;
    }
    return absl::StrCat("h", h, " still has ", communicators, " communicators, ",
                        has->sessions.value(), " processes and ", has->buffers.value(),
                        " buffers of hostile tenants that have left");
  }
  return "";
}

std::string HostileTenants::FindViolation() const {
  for (const HostileTenant& hostile_tenant : hostile_tenants_) {
    const std::string wrong = hostile_tenant.FindViolation();
    if (!wrong.empty())
      return absl::StrCat("the hostile tenant at ", hostile_tenant.address(), ": ", wrong);
  }
  return "";
}

}  // namespace mccs
