#include "controller/api/object_view.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "controller/api/enforcement_status.h"
#include "controller/api/work_view.h"
#include "controller/objects/spec_fields.h"
#include "controller/planning/applied_policies.h"
#include "controller/state/topology_mismatch.h"

namespace mccs {
namespace {

constexpr char kNone[] = "-";

std::string OrNone(std::string text) { return text.empty() ? kNone : std::move(text); }

// The displayed fields of one object.
class Facts {
 public:
  explicit Facts(control::v1::Object* object) : object_(object) {}

  void Add(const char* name, std::string value, bool wide = false) {
    control::v1::Fact* fact = object_->add_facts();
    fact->set_name(name);
    fact->set_value(OrNone(std::move(value)));
    fact->set_wide(wide);
  }

 private:
  control::v1::Object* const object_;
};

constexpr bool kWide = true;

std::string Rate(const std::optional<uint64_t>& bps) { return bps ? ExactBitRate(*bps) : ""; }
std::string Count(const std::optional<uint64_t>& n) { return n ? absl::StrCat(*n) : ""; }

void Describe(const TenantSpec& tenant, Facts* facts) {
  facts->Add("SELECTOR", ProcessesText(tenant));
  facts->Add("SOCKETS", SocketsText(tenant), kWide);
  facts->Add("WEIGHT", ExactNumber(tenant.weight));
  facts->Add("GUARANTEE", Rate(tenant.guarantee_bps));
  facts->Add("CAP", Rate(tenant.cap_bps));
  facts->Add("PRIORITY", absl::StrCat(tenant.priority));
  facts->Add("MAX COMMUNICATORS", Count(tenant.max_communicators), kWide);
  facts->Add("MAX MEMORY", tenant.max_memory_bytes ? ExactBytes(*tenant.max_memory_bytes) : "",
             kWide);
  facts->Add("MAX OPERATIONS", Count(tenant.max_operations), kWide);
}

void Describe(const PolicySpec& policy, Facts* facts) {
  facts->Add("TYPE", Name(policy.type));
  facts->Add("SELECTOR", SelectorText(policy));
  facts->Add("SIZES", ToText(policy.sizes));
  facts->Add("PARAMETERS", ParametersText(policy.parameters), kWide);
}

void Describe(const TopologySpec& spec, Facts* facts) {
  const Topology& topology = *spec.topology;
  facts->Add("PODS", absl::StrCat(topology.pods().size()), kWide);
  facts->Add("RACKS", absl::StrCat(topology.racks().size()));
  facts->Add("SWITCHES", absl::StrCat(topology.switches().size()));
  facts->Add("HOSTS", absl::StrCat(topology.hosts().size()));
  facts->Add("NICS", absl::StrCat(topology.nics().size()), kWide);
  facts->Add("GPUS", absl::StrCat(topology.gpus().size()));
  facts->Add("LINKS", absl::StrCat(topology.links().size()));
  facts->Add("MTU", absl::StrCat(topology.mtu_bytes()), kWide);
}

void Describe(const DrainSpec& drain, Facts* facts) {
  facts->Add("TARGET", TargetText(drain));
  facts->Add("REASON", drain.reason);
}

using Concerned = std::map<const Object*, std::vector<std::string>>;

// The ids of the communicators that each object of `set` affects now.
Concerned FindConcerned(const ObjectSet& set, const ClusterView& view,
                        const control::v1::ListWorkReply& work) {
  Concerned concerned;
  for (const Object* object : set.OfKind(ObjectKind::kDrain)) {
    const std::string& link = DrainOf(*object).link;
    if (!link.empty()) concerned[object] = UsersOfLink(work, link);
  }
  const std::vector<const Object*> topologies = set.OfKind(ObjectKind::kTopology);
  for (const CommunicatorView& communicator : view.communicators) {
    const std::string id = FormatCommId(communicator.id);
    if (const Object* tenant = FindTenant(set, communicator.origin())) {
      concerned[tenant].push_back(id);
    }
    if (const Object* policy = SelectPolicy(set, communicator)) {
      concerned[policy].push_back(id);
    }
    for (const Object* policy : AlgorithmPolicies(set, communicator))
      concerned[policy].push_back(id);
    for (const Object* object : set.OfKind(ObjectKind::kDrain)) {
      const std::string& host = DrainOf(*object).host;
      const auto& hosts = communicator.hosts;
      if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) {
        concerned[object].push_back(id);
      }
    }
    for (const Object* object : topologies) {
      const Topology& topology = *TopologyOf(*object).topology;
      const bool has_host =
          std::any_of(communicator.hosts.begin(), communicator.hosts.end(),
                      [&](const std::string& host) { return topology.FindHost(host).has_value(); });
      if (has_host) concerned[object].push_back(id);
    }
  }
  return concerned;
}

void SetKey(const ObjectKey& key, control::v1::ObjectKey* out) {
  out->set_kind(KindName(key.kind));
  out->set_name(key.name);
}

control::v1::Object Show(const ObjectSet& set, const Object& object, const Concerned& concerned) {
  control::v1::Object shown;
  SetKey(object.key, shown.mutable_key());
  shown.set_version(object.version);
  shown.set_document(DocumentOf(object, /*with_version=*/true));
  Facts facts(&shown);
  std::visit([&](const auto& spec) { Describe(spec, &facts); }, object.spec);
  facts.Add("VERSION", absl::StrCat(object.version));
  facts.Add("ENFORCED", EnforcementStatus(set, object));
  if (std::string note = UnenforcedReason(set, object); !note.empty())
    shown.add_notes(std::move(note));
  const auto found = concerned.find(&object);
  if (found == concerned.end()) return shown;
  for (const std::string& id : found->second) shown.add_communicators(id);
  return shown;
}

// For hosts that registered after the Topology was applied.
void AddMismatches(const std::vector<TopologyMismatch>& mismatches,
                   control::v1::ListObjectsReply* reply) {
  for (control::v1::Object& object : *reply->mutable_objects()) {
    for (const TopologyMismatch& each : mismatches) {
      if (each.topology.name == object.key().name())
        object.add_notes(absl::StrCat(each.field, ": ", each.text));
    }
  }
}

absl::StatusOr<ObjectKind> ReadKind(const std::string& word) {
  if (const auto kind = ParseKind(word)) return *kind;
  std::vector<std::string> kinds;
  for (ObjectKind each : kObjectKinds) kinds.push_back(KindName(each));
  return absl::InvalidArgumentError(
      absl::StrCat("unknown kind '", word, "': expected one of: ", absl::StrJoin(kinds, ", ")));
}

control::v1::ChangeKind ToProto(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kUnchanged:
      return control::v1::UNCHANGED;
    case ChangeKind::kCreated:
      return control::v1::CREATED;
    case ChangeKind::kChanged:
      return control::v1::CHANGED;
    case ChangeKind::kDeleted:
      return control::v1::DELETED;
  }
  return control::v1::UNCHANGED;
}

void AddOnce(std::string note, google::protobuf::RepeatedPtrField<std::string>* notes) {
  if (note.empty() || std::find(notes->begin(), notes->end(), note) != notes->end()) return;
  *notes->Add() = std::move(note);
}

// Null: it is newer than the view.
const CommunicatorView* FindIn(const ClusterView& view, CommId id) {
  const auto found =
      std::lower_bound(view.communicators.begin(), view.communicators.end(), id,
                       [](const CommunicatorView& c, CommId wanted) { return c.id < wanted; });
  return found != view.communicators.end() && found->id == id ? &*found : nullptr;
}

// Name of the Policy that decides for a communicator; empty: none.
std::string PolicyName(const ObjectSet& set, const CommunicatorView* communicator) {
  const Object* policy = communicator != nullptr ? SelectPolicy(set, *communicator) : nullptr;
  return policy != nullptr ? policy->key.name : "";
}

// By communicator: changes of its strategy, then of its rates.
std::map<CommId, std::string> TextsOf(const Decisions& decisions,
                                      const std::map<CommId, std::string>& rates) {
  std::map<CommId, std::string> texts;
  for (const Decision& decision : decisions.changed) texts[decision.id] = decision.change;
  for (const auto& [id, rate] : rates) {
    std::string& text = texts[id];
    absl::StrAppend(&text, text.empty() ? "" : "; ", rate);
  }
  return texts;
}

}  // namespace

absl::StatusOr<control::v1::ListObjectsReply> ListObjects(
    const ObjectSet& set, const ClusterView& view, const control::v1::ListWorkReply& work,
    const control::v1::ListObjectsRequest& request) {
  MCCS_ASSIGN_OR_RETURN(const ObjectKind kind, ReadKind(request.kind()));
  const Concerned concerned = FindConcerned(set, view, work);
  control::v1::ListObjectsReply reply;
  if (request.names().empty()) {
    for (const Object* object : set.OfKind(kind))
      *reply.add_objects() = Show(set, *object, concerned);
  }
  for (const std::string& name : request.names()) {
    const Object* object = set.Find({kind, name});
    if (object == nullptr) return UnknownObject(set, {kind, name});
    *reply.add_objects() = Show(set, *object, concerned);
  }
  if (kind == ObjectKind::kTopology) AddMismatches(FindTopologyMismatches(set, view), &reply);
  return reply;
}

absl::StatusOr<std::vector<ObjectKey>> ReadKeys(const control::v1::DeleteRequest& request) {
  std::vector<ObjectKey> keys;
  for (const control::v1::ObjectKey& key : request.objects()) {
    MCCS_ASSIGN_OR_RETURN(const ObjectKind kind, ReadKind(key.kind()));
    keys.push_back({kind, key.name()});
  }
  return keys;
}

control::v1::ChangeReply ShowChange(const Catalog::Outcome& outcome, const ClusterView& view,
                                    const Decisions& decisions,
                                    const std::map<CommId, std::string>& rates, bool dry_run) {
  control::v1::ChangeReply reply;
  reply.set_dry_run(dry_run);
  reply.set_revision(dry_run ? outcome.before->revision : outcome.plan.next.revision);
  for (const ObjectChange& change : outcome.plan.changes) {
    control::v1::ObjectChange* out = reply.add_objects();
    SetKey(change.key, out->mutable_key());
    out->set_kind(ToProto(change.kind));
    out->set_before(change.before);
    out->set_after(change.after);
    const Object* object = outcome.plan.next.Find(change.key);
    if (object == nullptr) continue;
    const bool stored = !dry_run || change.kind == ChangeKind::kUnchanged;
    if (stored) out->set_version(object->version);
    if (change.kind != ChangeKind::kUnchanged) {
      AddOnce(UnenforcedReason(outcome.plan.next, *object), reply.mutable_notes());
    }
  }
  for (const auto& [id, change] : TextsOf(decisions, rates)) {
    const CommunicatorView* communicator = FindIn(view, id);
    control::v1::CommunicatorChange* out = reply.add_communicators();
    out->set_id(FormatCommId(id));
    if (communicator != nullptr)
      out->set_tenant(TenantNameOf(outcome.plan.next, communicator->origin()));
    out->set_policy_before(PolicyName(*outcome.before, communicator));
    out->set_policy_after(PolicyName(outcome.plan.next, communicator));
    out->set_change(change);
  }
  for (const absl::Status& trouble : decisions.trouble) {
    AddOnce(absl::StrCat(std::string(trouble.message()),
                         "; the communicator keeps its current strategy"),
            reply.mutable_notes());
  }
  return reply;
}

control::v1::ListAuditReply ShowAudit(const std::vector<AuditEntry>& entries) {
  control::v1::ListAuditReply reply;
  for (const AuditEntry& entry : entries) {
    control::v1::AuditEntry* out = reply.add_entries();
    out->set_number(entry.number);
    out->set_unix_ns(entry.time);
    out->set_peer(entry.peer);
    out->set_user(entry.user);
    out->set_action(entry.action);
    out->set_objects(entry.objects);
    out->set_outcome(entry.outcome);
    out->set_revision(entry.revision);
    out->set_user_proven(entry.user_proven);
  }
  return reply;
}

}  // namespace mccs
