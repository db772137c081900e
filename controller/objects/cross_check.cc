#include "controller/objects/cross_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/closest_word.h"
#include "controller/objects/spec_fields.h"
#include "proto/cgroup_pattern.h"

namespace mccs {
namespace {

constexpr size_t kMaxNamesShown = 8;
constexpr size_t kMaxFaultsShown = 20;

// Suggests names: "(did you mean 'h1'?)", "(known: h1, h2)".
std::string Suggest(const std::string& word, const std::vector<std::string>& known) {
  if (const std::string* near = ClosestWord(word, known)) {
    return absl::StrCat("(did you mean '", *near, "'?)");
  }
  if (known.empty()) return "(none exist)";
  const size_t shown = std::min(known.size(), kMaxNamesShown);
  return absl::StrCat("(known: ", absl::StrJoin(known.begin(), known.begin() + shown, ", "),
                      shown < known.size() ? ", …)" : ")");
}

std::string Item(const char* list, size_t index) { return absl::StrCat(list, "[", index, "]"); }

// A field of an object; formatted as "Tenant 'team-a' (a.yaml:7:8)".
struct Place {
  const Object* object;
  std::string field;
};

// "Tenant 'team-a' (a.yaml:7:8)".
std::string ToText(const Place& place) {
  return absl::StrCat(ToText(place.object->key), " (", PlaceOf(*place.object, place.field), ")");
}

// One kind of call in a policy `algorithm`.
struct Rule {
  OpKind kind;
  Place place;
};

// Puts stored objects first, so that errors are about the applied ones.
std::vector<const Object*> StoredFirst(std::vector<const Object*> objects) {
  std::stable_partition(objects.begin(), objects.end(),
                        [](const Object* object) { return !object->origin.has_value(); });
  return objects;
}

class Checker {
 public:
  explicit Checker(const ObjectSet& set)
      : set_(set),
        tenants_(set.NamesOf(ObjectKind::kTenant)),
        topologies_(StoredFirst(set.OfKind(ObjectKind::kTopology))) {}

  std::vector<ObjectError> Check() {
    CheckTenants();
    CheckPolicies();
    CheckTopologies();
    CheckDrains();
    return std::move(faults_);
  }

 private:
  template <typename... Parts>
  void Add(const Object& object, std::string field, const Parts&... parts) {
    faults_.push_back({object.key, std::move(field), absl::StrCat(parts...)});
  }

  void CheckTenants() {
    std::map<std::string, Place> entries;
    for (const Object* object : StoredFirst(set_.OfKind(ObjectKind::kTenant))) {
      const TenantSpec& tenant = TenantOf(*object);
      if (tenant.guarantee_bps && tenant.cap_bps && *tenant.cap_bps < *tenant.guarantee_bps) {
        Add(*object, "spec.cap", "the cap of ", ExactBitRate(*tenant.cap_bps),
            " is below the guarantee of ", ExactBitRate(*tenant.guarantee_bps), " (",
            PlaceOf(*object, "spec.guarantee"), "); raise the cap or lower the guarantee");
      }
      const auto add_entries = [&](const char* list, const char* what, const auto& values) {
        for (size_t i = 0; i < values.size(); ++i) {
          const std::string entry = absl::StrCat(what, " ", values[i]);
          const auto [first, is_first] = entries.emplace(entry, Place{object, Item(list, i)});
          if (is_first) continue;
          Add(*object, Item(list, i), entry, " already belongs to ", ToText(first->second),
              "; a process has exactly one tenant: remove it from one of them");
        }
      };
      add_entries("spec.selector.uids", "uid", tenant.uids);
      add_entries("spec.selector.sockets", "socket", tenant.sockets);
      add_entries("spec.selector.cgroups", "cgroup", tenant.cgroups);
      CheckDeclaredSockets(*object, &entries);
    }
    CheckPatterns();
  }

  // A process must not match patterns of two tenants to the same depth.
  void CheckPatterns() {
    struct Pattern {
      Place place;
      const std::string& text;
    };
    std::vector<Pattern> patterns;
    size_t compared = 0;
    for (const Object* object : StoredFirst(set_.OfKind(ObjectKind::kTenant))) {
      const std::vector<std::string>& cgroups = TenantOf(*object).cgroups;
      for (size_t i = 0; i < cgroups.size(); ++i) {
        if (!HasWildcards(cgroups[i])) continue;
        const Pattern pattern{{object, Item("spec.selector.cgroups", i)}, cgroups[i]};
        if (patterns.size() == kMaxCgroupPatterns) {
          return Add(*object, pattern.place.field, "more than ", kMaxCgroupPatterns,
                     " patterns with '*' or '{name}'; select by socket, or merge Tenants");
        }
        for (const Pattern& other : patterns) {
          if (other.place.object == object) continue;
          if (compared > kMaxComparedCharacters) {
            return Add(*object, pattern.place.field, "pattern ", pattern.text,
                       " and those of other Tenants with '*' or '{name}' are too similar to be "
                       "compared; begin or end each with other text, or select by socket");
          }
          const std::optional<std::string> both = CommonCgroup(other.text, pattern.text, &compared);
          if (!both) continue;
          Add(*object, pattern.place.field, "pattern ", pattern.text, " and pattern ", other.text,
              " of ", ToText(other.place), " both match ", *both,
              "; a process has exactly one tenant: make one of them narrower, or name the group "
              "without '*' and '{name}'");
          break;
        }
        patterns.push_back(pattern);
      }
    }
  }

  // Paths, and the name by which daemons identify processes at these sockets.
  void CheckDeclaredSockets(const Object& object, std::map<std::string, Place>* entries) {
    const TenantSpec& tenant = TenantOf(object);
    for (size_t i = 0; i < tenant.declared_sockets.size(); ++i) {
      const std::string& path = tenant.declared_sockets[i].path;
      const std::string field = absl::StrCat(Item("spec.sockets", i), ".path");
      const auto [first, is_first] =
          entries->emplace(absl::StrCat("path ", path), Place{&object, field});
      if (is_first) continue;
      Add(object, field, "socket path '", path, "' is in use by ", ToText(first->second),
          "; choose another path");
    }
    if (tenant.declared.empty()) return;
    const auto [first, is_first] =
        entries->emplace(absl::StrCat("socket ", tenant.declared), Place{&object, "spec.sockets"});
    if (is_first || first->second.object == &object) return;
    Add(object, "spec.sockets", "processes at these sockets are those of '", tenant.declared,
        "', which already belongs to ", ToText(first->second),
        "; a process has exactly one tenant: remove it from one of them");
  }

  void CheckPolicies() {
    for (const Object* object : set_.OfKind(ObjectKind::kPolicy)) {
      const PolicySpec& policy = PolicyOf(*object);
      CheckTenantNames(*object, "spec.parameters.favoured", policy.parameters.favoured);
      CheckTenantNames(*object, "spec.selector.tenants", policy.tenants);
      CheckHosts(*object, "spec.parameters.order", policy.parameters.order);
      CheckLinks(*object, "spec.parameters.avoid_links", policy.parameters.avoid_links);
      CheckLinks(*object, "spec.parameters.reserved_links", policy.parameters.reserved_links);
    }
    CheckOnePolicyEach();
  }

  void CheckTenantNames(const Object& object, const char* list,
                        const std::vector<std::string>& names) {
    CheckNames(object, list, names, "Tenant", tenants_, "; apply it first or in the same call");
  }

  void CheckHosts(const Object& object, const char* list, const std::vector<std::string>& names) {
    if (!hosts_) hosts_ = AllNames([](const Topology& topology) { return topology.hosts(); });
    CheckNames(object, list, names, "host", *hosts_,
               "; correct the name, or apply a Topology that has it");
  }

  void CheckLinks(const Object& object, const char* list, const std::vector<std::string>& names) {
    if (!links_) links_ = AllNames([](const Topology& topology) { return topology.links(); });
    CheckNames(object, list, names, "link", *links_,
               "; correct the name, or apply a Topology that has it");
  }

  // Sorted. Topologies may share names.
  template <typename Parts>
  std::vector<std::string> AllNames(Parts parts) {
    std::vector<std::string> all;
    for (const Object* topology : topologies_) {
      for (const auto& part : parts(*TopologyOf(*topology).topology)) all.push_back(part.name);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  // `known`: sorted.
  void CheckNames(const Object& object, const char* list, const std::vector<std::string>& names,
                  const char* what, const std::vector<std::string>& known, const char* remedy) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::binary_search(known.begin(), known.end(), names[i])) continue;
      // A suggestion compares the name with all others: only for faults that are shown.
      const std::string suggestion =
          faults_.size() < kMaxFaultsShown ? absl::StrCat(" ", Suggest(names[i], known)) : "";
      Add(object, Item(list, i), "unknown ", what, " '", names[i], "'", suggestion, remedy);
    }
  }

  // In each scope (a communicator, a tenant, no selector) there is at most one policy for rings,
  // and one algorithm for each call.
  void CheckOnePolicyEach() {
    for (const Object* object : StoredFirst(set_.OfKind(ObjectKind::kPolicy))) {
      const PolicySpec& policy = PolicyOf(*object);
      for (size_t i = 0; i < policy.tenants.size(); ++i) {
        CheckAlone({object, Item("spec.selector.tenants", i)},
                   absl::StrCat("Tenant '", policy.tenants[i], "'"));
      }
      for (size_t i = 0; i < policy.communicators.size(); ++i) {
        CheckAlone({object, Item("spec.selector.communicators", i)},
                   absl::StrCat("communicator ", policy.communicators[i]));
      }
      if (policy.tenants.empty() && policy.communicators.empty()) {
        CheckAlone({object, "spec.selector"},
                   "all communicators that no other policy selects (no `selector`)");
      }
    }
  }

  void CheckAlone(const Place& place, const std::string& subject) {
    const PolicySpec& policy = PolicyOf(*place.object);
    if (policy.Decides(PolicyDecision::kAlgorithms)) return CheckRules(place, policy, subject);
    const auto [first, is_first] = rings_of_.emplace(subject, place);
    if (is_first) return;
    Add(*place.object, place.field, "duplicate policy for ", subject, ": ", ToText(first->second),
        " already exists; delete one of them");
  }

  void CheckRules(const Place& place, const PolicySpec& policy, const std::string& subject) {
    std::vector<Rule>& rules = rules_for_[subject];
    const size_t before = rules.size();
    if (before > kMaxRulesOfOne) return;  // Already a fault: more rules only take time.
    for (const OpKind kind : KindsOf(policy)) {
      const auto taken = std::find_if(rules.begin(), rules.begin() + before, [&](const Rule& rule) {
        return rule.kind == kind && policy.sizes.Overlaps(PolicyOf(*rule.place.object).sizes);
      });
      if (taken != rules.begin() + before) {
        Add(*place.object, place.field, "overlapping policies for ", std::string(Name(kind)),
            " of ", subject, ": ", ToText(taken->place), " is for sizes ",
            ToText(PolicyOf(*taken->place.object).sizes), ", this one for ", ToText(policy.sizes),
            "; delete one, or make their `sizes` disjoint");
        return;
      }
      rules.push_back({kind, place});
    }
    if (before <= kMaxRulesOfOne && rules.size() > kMaxRulesOfOne) {
      Add(*place.object, place.field, "more than ", kMaxRulesOfOne, " rules for ", subject,
          " (one per kind of call of a policy `algorithm`); merge ranges of sizes");
    }
  }

  void CheckTopologies() {
    std::map<std::string, Place> named_in;
    for (const Object* object : topologies_) {
      for (const Topology::Host& host : TopologyOf(*object).topology->hosts()) {
        const auto [first, is_first] = named_in.emplace(host.name, Place{object, "spec.hosts"});
        if (is_first) continue;
        Add(*object, "spec.hosts", "host '", host.name, "' is already in ", ToText(first->second),
            "; remove it from one of them");
        break;
      }
    }
  }

  // A drained host may be in no Topology: daemons register without one.
  void CheckDrains() {
    std::map<std::string, Place> drained;
    for (const Object* object : StoredFirst(set_.OfKind(ObjectKind::kDrain))) {
      const DrainSpec& drain = DrainOf(*object);
      const std::string field = drain.host.empty() ? "spec.link" : "spec.host";
      const auto [first, is_first] = drained.emplace(TargetText(drain), Place{object, field});
      if (!is_first) {
        Add(*object, field, TargetText(drain), " is already drained by ", ToText(first->second),
            "; delete one");
      }
      const bool known =
          drain.link.empty() || std::any_of(topologies_.begin(), topologies_.end(), [&](auto* t) {
            return TopologyOf(*t).topology->FindLink(drain.link).has_value();
          });
      if (!known) {
        Add(*object, field, "unknown link '", drain.link,
            "'; correct the name, or apply a Topology that has it");
      }
    }
  }

  const ObjectSet& set_;
  const std::vector<std::string> tenants_;
  const std::vector<const Object*> topologies_;
  std::optional<std::vector<std::string>> hosts_, links_;  // in topologies_; see AllNames
  // By scope: "Tenant 'a'".
  std::map<std::string, Place> rings_of_;
  std::map<std::string, std::vector<Rule>> rules_for_;
  std::vector<ObjectError> faults_;
};

}  // namespace

std::vector<ObjectError> CheckObjects(const ObjectSet& set) { return Checker(set).Check(); }

std::string ToText(const ObjectSet& set, const std::vector<ObjectError>& faults) {
  std::string text;
  for (size_t i = 0; i < faults.size() && i < kMaxFaultsShown; ++i) {
    const ObjectError& fault = faults[i];
    const Object* object = set.Find(fault.object);
    absl::StrAppend(&text, i == 0 ? "" : "\n",
                    object != nullptr ? PlaceOf(*object, fault.field) : "", ": ",
                    ToText(fault.object), ", ", fault.field, ": ", fault.text);
  }
  if (faults.size() > kMaxFaultsShown) {
    absl::StrAppend(&text, "\n(", faults.size() - kMaxFaultsShown, " more)");
  }
  return text;
}

}  // namespace mccs
