#include "tests/sim/random_operator.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/objects/change.h"
#include "controller/objects/drain_spec.h"
#include "controller/objects/read_objects.h"

namespace mccs {
namespace {

constexpr const char* kLinks[] = {"leaf0-spine0", "leaf0-spine1", "leaf1-spine0", "leaf1-spine1"};

std::string Document(const char* kind, const std::string& name, const std::string& spec) {
  return absl::StrCat("---\napiVersion: mccs/v1\nkind: ", kind, "\nmetadata: {name: ", name,
                      "}\nspec:\n", spec);
}

std::string RandomLinks(std::mt19937_64& random) {
  std::vector<std::string> links(std::begin(kLinks), std::end(kLinks));
  std::shuffle(links.begin(), links.end(), random);
  links.resize(1 + random() % 2);
  return absl::StrJoin(links, ", ");
}

std::string TenantName(uint64_t tenant) { return absl::StrCat("t", tenant); }
std::string RandomTenantName(std::mt19937_64& random) {
  return TenantName(random() % kRandomTenants);
}

// By type; in the order of PolicyKind.
constexpr RandomEvent kPolicyEvents[] = {RandomEvent::kLocalityRing, RandomEvent::kRankOrder,
                                         RandomEvent::kFairFlow,     RandomEvent::kPriorityFlow,
                                         RandomEvent::kTimeWindows,  RandomEvent::kShares,
                                         RandomEvent::kAlgorithm};
static_assert(std::size(kPolicyEvents) == std::size(kPolicyTraits));

}  // namespace

std::string RandomTenantProcessName(uint64_t tenant) { return absl::StrCat("uid ", 1000 + tenant); }

std::string RandomOperator::Act(const std::vector<CommId>& communicators, std::mt19937_64& random) {
  if (random() % 12 == 0) return Undrain(random);
  std::string text;
  if (!initialized_) text = InitialDocuments();
  for (uint64_t i = 0; i < 1 + random() % 2; ++i) text += RandomDocument(communicators, random);
  return Apply(text);
}

std::string RandomOperator::Apply(const std::string& text) {
  const auto read = ReadObjects({{"random.yaml", text}});
  if (!read.ok()) return std::string(read.status().message());
  const Catalog::Objects before = control_.objects();
  const auto outcome = control_.Apply(text);
  // Without a Topology a cluster would be tested only in part.
  initialized_ = !control_.objects()->OfKind(ObjectKind::kTopology).empty();
  if (!outcome.ok()) return OnRejected(outcome.status(), *before, *read);
  for (const ObjectChange& change : outcome->plan.changes) {
    if (change.kind != ChangeKind::kUnchanged) Count(*control_.objects()->Find(change.key));
  }
  return "";
}

std::string RandomOperator::Undrain(std::mt19937_64& random) {
  const Catalog::Objects before = control_.objects();
  const auto drains = before->OfKind(ObjectKind::kDrain);
  if (drains.empty()) return "";
  const auto outcome = control_.Delete({drains[random() % drains.size()]->key});
  if (!outcome.ok() && !absl::IsInternal(outcome.status())) return "undrain rejected";
  if (!outcome.ok()) return OnRejected(outcome.status(), *before, {});
  counts_.Add(RandomEvent::kUndrained);
  return "";
}

// A conflict and a disk that fails reject a request, and then nothing changes. A controller that
// dies meanwhile has stored all of it or nothing.
std::string RandomOperator::OnRejected(const absl::Status& why, const ObjectSet& before,
                                       const std::vector<Object>& requested) {
  FailingStore* const store = control_.failing_store();
  if (store != nullptr && store->TakeDeath()) return OnDeath(before);
  const uint64_t revision = control_.objects()->revision;
  if (revision != before.revision) return absl::StrCat("rejected, but changed: ", why.ToString());
  if (store != nullptr && IsOfDisk(why, requested)) return "";
  counts_.Add(RandomEvent::kRequestRejected);
  return absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why) ? "" : why.ToString();
}

bool RandomOperator::IsOfDisk(const absl::Status& why, const std::vector<Object>& requested) {
  switch (control_.failing_store()->fault()) {
    case FailingFiles::Fault::kDiskFull:
      if (!absl::StrContains(why.message(), "; the disk is full")) return false;
      counts_.Add(RandomEvent::kRequestRejectedByFullDisk);
      return true;
    case FailingFiles::Fault::kSyncFails:
      if (!absl::StrContains(why.message(), "disk I/O error; check the disk")) return false;
      counts_.Add(RandomEvent::kRequestRejectedByFailedSync);
      // The next controller may have the change all the same.
      for (const Object& object : requested) {
        if (object.key.kind == ObjectKind::kTenant) NoteQuotas(TenantOf(object));
      }
      return true;
    default:
      return false;
  }
}

// FailingStore checks that the store has all of the change or nothing.
std::string RandomOperator::OnDeath(const ObjectSet& before) {
  control_.Kill();
  control_.Restart();
  counts_.Add(RandomEvent::kControllerDiedInCommit);
  const Catalog::Objects after = control_.objects();
  for (const Object* tenant : after->OfKind(ObjectKind::kTenant)) NoteQuotas(TenantOf(*tenant));
  initialized_ = !after->OfKind(ObjectKind::kTopology).empty();
  if (after->revision == before.revision || after->revision == before.revision + 1) return "";
  return absl::StrCat("after a death at revision ", before.revision,
                      " the controller has revision ", after->revision);
}

void RandomOperator::NoteQuotas(const TenantSpec& tenant) {
  has_set_quotas_ |= tenant.max_communicators.has_value() || tenant.max_memory_bytes.has_value();
}

void RandomOperator::Count(const Object& object) {
  switch (object.key.kind) {
    case ObjectKind::kTenant:
      NoteQuotas(TenantOf(object));
      counts_.Add(RandomEvent::kTenantChanged);
      break;
    case ObjectKind::kPolicy:
      counts_.Add(kPolicyEvents[static_cast<size_t>(PolicyOf(object).type)]);
      break;
    case ObjectKind::kDrain:
      counts_.Add(RandomEvent::kDrained);
      break;
    case ObjectKind::kTopology:
      break;
  }
}

// ---- Documents ----------------------------------------------------------------------------------

std::string RandomOperator::RandomDocument(const std::vector<CommId>& communicators,
                                           std::mt19937_64& random) {
  const uint64_t kind = random() % 12;
  if (kind < 8) return RandomPolicy(communicators, random);
  if (kind < 11) return RandomTenant(random);
  return RandomDrain(random);
}

std::string RandomOperator::InitialDocuments() const {
  std::string text = Topology();
  for (uint64_t t = 0; t < kRandomTenants; ++t) {
    text +=
        Document("Tenant", TenantName(t), absl::StrCat("  selector: {uids: [", 1000 + t, "]}\n"));
  }
  return text;
}

// Two leaves and two spines; rules map source ports to spines.
std::string RandomOperator::Topology() const {
  std::string spec =
      "  racks: [{name: \"r[0-2]\"}]\n  switches: [{name: \"leaf[0-1],spine[0-1]\"}]\n  hosts:\n";
  for (size_t h = 0; h < racks_.size(); ++h) {
    absl::StrAppend(&spec, "    - {name: h", h, ", rack: ", racks_[h],
                    ", gpus: 8, nics: [{name: nic0, switch: leaf", h % 2,
                    ", capacity: 1Gbit/s, address: ", addresses_[h], "}]}\n");
  }
  absl::StrAppend(&spec,
                  "  links: [{ends: [\"leaf[0-1]\", \"spine[0-1]\"], capacity: 1Gbit/s}]\n"
                  "  source_ports:\n    mapping: rules\n    candidates: 61000-64999\n    rules:\n"
                  "      - {ports: 61000-62999, via: spine0}\n"
                  "      - {ports: 63000-64999, via: spine1}\n");
  return Document("Topology", "t", spec);
}

// The cap may be below the guarantee, and the guarantee above the rate of a NIC.
std::string RandomOperator::RandomTenant(std::mt19937_64& random) {
  const uint64_t tenant = random() % kRandomTenants;
  std::string spec =
      absl::StrCat("  selector: {uids: [", 1000 + tenant, "]}\n  weight: ", 1 + random() % 4,
                   "\n  priority: ", random() % 8, "\n");
  if (random() % 3 == 0)
    absl::StrAppend(&spec, "  guarantee: ", 10 + random() % 200 * (1 + random() % 8), "Mbps\n");
  if (random() % 3 == 0) absl::StrAppend(&spec, "  cap: ", 100 + random() % 900, "Mbps\n");
  std::vector<std::string> quotas;
  if (random() % 2 == 0) quotas.push_back(absl::StrCat("communicators: ", 1 + random() % 2));
  if (random() % 4 == 0) quotas.push_back(absl::StrCat("memory: ", 2 + random() % 6, "MiB"));
  if (random() % 3 == 0) quotas.push_back(absl::StrCat("operations: ", 1 + random() % 2));
  if (!quotas.empty()) absl::StrAppend(&spec, "  quotas: {", absl::StrJoin(quotas, ", "), "}\n");
  return Document("Tenant", TenantName(tenant), spec);
}

// A Policy with the same selector may exist, and the tenants may be unknown.
std::string RandomOperator::RandomPolicy(const std::vector<CommId>& communicators,
                                         std::mt19937_64& random) const {
  std::string spec = RandomPolicySpec(random);
  std::vector<std::string> selector;
  const uint64_t level = random() % 3;
  if (level == 1) selector.push_back(absl::StrCat("tenants: [", RandomTenantName(random), "]"));
  if (level == 2 && !communicators.empty()) {
    const CommId id = communicators[random() % communicators.size()];
    selector.push_back(absl::StrCat("communicators: ['", FormatCommId(id), "']"));
  }
  const bool chooses_algorithms = spec.find("type: algorithm") != std::string::npos;
  if (chooses_algorithms) {
    selector.push_back(absl::StrCat("sizes: {max_bytes: ", 1 + random() % 65536, "}"));
  }
  if (!selector.empty())
    absl::StrAppend(&spec, "  selector: {", absl::StrJoin(selector, ", "), "}\n");
  // Mostly the name of the Policy with the same selector, which it replaces.
  const std::string name = random() % 20 == 0
                               ? "other"
                               : absl::StrCat(chooses_algorithms ? "sizes" : "rings", level,
                                              selector.empty() ? "" : "-some");
  return Document("Policy", name, spec);
}

std::string RandomOperator::RandomPolicySpec(std::mt19937_64& random) const {
  const char* const algorithms[] = {"ring", "tree", "direct"};
  switch (random() % 8) {
    case 0:
      return random() % 2 == 0 ? "  type: fair_flow\n"
                               : absl::StrCat("  type: fair_flow\n  parameters: {avoid_links: [",
                                              RandomLinks(random), "]}\n");
    case 1:
      // Few ports, so that lanes want each other's ports.
      return absl::StrCat("  type: rank_order\n  parameters: {port_seed: ", random() % 100,
                          ", source_ports: 30000-30031}\n");
    case 2:
      return absl::StrCat("  type: priority_flow\n  parameters: {favoured: [",
                          RandomTenantName(random), "], reserved_links: [", RandomLinks(random),
                          "]}\n");
    case 3:
      return absl::StrCat("  type: time_windows\n  parameters: {favoured: [",
                          RandomTenantName(random), "]}\n");
    case 4:
      return "  type: shares\n";
    case 5:
      return absl::StrCat("  type: algorithm\n  parameters: {algorithm: ", algorithms[random() % 3],
                          "}\n");
    default:
      break;
  }
  std::vector<std::string> order;
  for (size_t h = 0; h < racks_.size(); ++h) order.push_back(absl::StrCat("h", h));
  std::shuffle(order.begin(), order.end(), random);
  order.resize(random() % (order.size() + 1));
  // Below the ephemeral ports: a control link or a lane of a tree that has one of those never
  // releases it.
  const uint64_t first = 20'000 + 100 * (random() % 290);
  return absl::StrCat("  type: locality_ring\n  parameters: {order: [", absl::StrJoin(order, ", "),
                      "], source_ports: ", first, "-", first + 99, "}\n");
}

std::string RandomOperator::RandomDrain(std::mt19937_64& random) const {
  DrainSpec drain;
  if (random() % 2 == 0) {
    drain.host = absl::StrCat("h", random() % racks_.size());
  } else {
    drain.link = kLinks[random() % std::size(kLinks)];
  }
  return Document("Drain", DrainName(drain),
                  drain.host.empty() ? absl::StrCat("  link: ", drain.link, "\n")
                                     : absl::StrCat("  host: ", drain.host, "\n"));
}

}  // namespace mccs
