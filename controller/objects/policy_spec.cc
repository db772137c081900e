#include "controller/objects/policy_spec.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/closest_word.h"
#include "controller/objects/spec_fields.h"
#include "topology/source_port_reader.h"

namespace mccs {
namespace {

using Names = std::vector<std::string> PolicyParameters::*;

// A parameter with a list of names.
struct NameList {
  PolicyParameter parameter;
  Names names;
};
constexpr NameList kNameLists[] = {
    {PolicyParameter::kOrder, &PolicyParameters::order},
    {PolicyParameter::kAvoidLinks, &PolicyParameters::avoid_links},
    {PolicyParameter::kReservedLinks, &PolicyParameters::reserved_links},
    {PolicyParameter::kFavoured, &PolicyParameters::favoured},
    {PolicyParameter::kCalls, &PolicyParameters::calls},
};
constexpr const char* kSourcePorts = Name(PolicyParameter::kSourcePorts);
constexpr const char* kPortSeed = Name(PolicyParameter::kPortSeed);
constexpr const char* kChannelsPerNic = Name(PolicyParameter::kChannelsPerNic);
constexpr const char* kAlgorithm = Name(PolicyParameter::kAlgorithm);

std::optional<PolicyKind> ParsePolicyKind(const std::string& name) {
  for (const PolicyTraits& traits : kPolicyTraits) {
    if (name == traits.name) return traits.kind;
  }
  return std::nullopt;
}

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  return Suggestion(word, known, absl::StrCat("expected one of: ", absl::StrJoin(known, ", ")));
}

std::optional<SourcePortRange> ReadSourcePorts(YamlReader* parameters) {
  SourcePortRange ports{};
  ReadPortRange(*parameters, kSourcePorts, Need::kOptional, &ports);
  return ports.first != 0 ? std::optional(ports) : std::nullopt;
}

// Checks that the type accepts all parameters that are present, and that all required lists are.
void CheckAccepted(const PolicyTraits& type, const PolicyParameters& parameters, YamlReader* yaml) {
  for (size_t i = 0; i < std::size(kPolicyParameterNames); ++i) {
    const char* key = kPolicyParameterNames[i];
    if (!yaml->Has(key) || type.parameters.Contains(static_cast<PolicyParameter>(i))) continue;
    yaml->Reject(key, absl::StrCat("policy ", type.name, " has no parameter '", key,
                                   "'; remove it, or use one of: ",
                                   absl::StrJoin(NamesOf(type.parameters), ", ")));
  }
  for (const NameList& list : kNameLists) {
    if (!type.required.Contains(list.parameter) || !(parameters.*list.names).empty()) continue;
    const char* key = Name(list.parameter);
    yaml->Reject(key,
                 absl::StrCat("policy ", type.name, " requires '", key, "': name at least one"));
  }
}

std::vector<std::string> CallsWithAChoice(std::optional<Algorithm> algorithm) {
  std::vector<std::string> names;
  for (int i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (HasChoice(kind) && (!algorithm || Supports(*algorithm, kind)))
      names.emplace_back(Name(kind));
  }
  return names;
}

void ReadAlgorithm(YamlReader* yaml, PolicyParameters* parameters) {
  std::string word;
  yaml->Field(kAlgorithm, &word);
  if (!yaml->Has(kAlgorithm)) return;
  parameters->algorithm = ParseAlgorithm(word);
  if (!parameters->algorithm)
    yaml->Reject(kAlgorithm,
                 absl::StrCat("unknown algorithm '", word, "': expected ", kAlgorithmNames));
}

// REQUIRES: a Policy `algorithm`.
void CheckCalls(const PolicyParameters& parameters, YamlReader* yaml) {
  if (!yaml->Has(kAlgorithm)) {
    yaml->Reject(kAlgorithm,
                 absl::StrCat("policy algorithm requires 'algorithm': ", kAlgorithmNames));
  }
  const std::vector<std::string> known = CallsWithAChoice(parameters.algorithm);
  for (size_t i = 0; i < parameters.calls.size(); ++i) {
    const std::string& call = parameters.calls[i];
    if (Contains(known, call)) continue;
    yaml->RejectItem(
        "calls", i,
        Contains(CallsWithAChoice(std::nullopt), call)
            ? absl::StrCat("algorithm '", std::string(Name(*parameters.algorithm)),
                           "' does not support '", call, "'")
            : absl::StrCat("invalid call '", call, "': expected a call with a choice of algorithms",
                           DidYouMean(call, known)));
  }
}

// `type` is nothing if it is not valid, which is reported already.
PolicyParameters ReadParameters(YamlReader yaml, std::optional<PolicyKind> type) {
  PolicyParameters parameters;
  parameters.source_ports = ReadSourcePorts(&yaml);
  uint64_t seed = 0;
  yaml.Field(kPortSeed, &seed);
  if (yaml.Has(kPortSeed)) parameters.port_seed = seed;
  uint32_t channels = 1;
  yaml.Field(kChannelsPerNic, &channels);
  if (yaml.Has(kChannelsPerNic)) parameters.channels_per_nic = channels;
  if (channels < 1 || channels > kMostChannelsPerNic) {
    yaml.Reject(kChannelsPerNic,
                absl::StrCat(channels, " is out of range: expected 1 to ", kMostChannelsPerNic));
  }
  for (const NameList& list : kNameLists) {
    std::vector<std::string>& names = parameters.*list.names;
    names = ReadUniqueList(&yaml, Name(list.parameter));
    if (names.size() <= kMaxNamesOfParameter) continue;
    yaml.Reject(Name(list.parameter),
                absl::StrCat(names.size(), " names: expected at most ", kMaxNamesOfParameter));
  }
  ReadAlgorithm(&yaml, &parameters);
  if (!type) return parameters;
  CheckAccepted(TraitsOf(*type), parameters, &yaml);
  if (*type == PolicyKind::kAlgorithm) CheckCalls(parameters, &yaml);
  return parameters;
}

void CheckIds(const std::vector<std::string>& ids, YamlReader* yaml) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool hex = ids[i].find_first_not_of("0123456789abcdef") == std::string::npos;
    if (ids[i].size() == 16 && hex) continue;
    yaml->RejectItem("communicators", i,
                     absl::StrCat("invalid communicator id '", ids[i],
                                  "': expected 16 hexadecimal digits, as shown by 'mccsctl get "
                                  "communicators'"));
  }
}

SizeRange ReadSizes(YamlReader yaml) {
  SizeRange sizes;
  yaml.RejectFormerKey("from", "min_bytes");
  yaml.RejectFormerKey("below", "max_bytes");
  yaml.Bytes("min_bytes", &sizes.min_bytes);
  yaml.Bytes("max_bytes", &sizes.max_bytes);
  if (sizes.min_bytes > sizes.max_bytes) {
    yaml.Reject("max_bytes", absl::StrCat("'max_bytes' (", ExactBytes(sizes.max_bytes),
                                          ") is below 'min_bytes' (", ExactBytes(sizes.min_bytes),
                                          "): raise it"));
  }
  return sizes;
}

}  // namespace

std::string ToText(const SizeRange& sizes) {
  if (sizes.IsAll()) return "all";
  if (sizes.max_bytes == SizeRange::kUnlimited)
    return absl::StrCat("from ", ExactBytes(sizes.min_bytes));
  if (sizes.min_bytes == 0) return absl::StrCat("up to ", ExactBytes(sizes.max_bytes));
  return absl::StrCat(ExactBytes(sizes.min_bytes), " to ", ExactBytes(sizes.max_bytes));
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const PolicyTraits& traits : kPolicyTraits) names.emplace_back(traits.name);
  return names;
}

std::vector<std::string> NamesOf(EnumSet<PolicyParameter> parameters) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::size(kPolicyParameterNames); ++i) {
    if (parameters.Contains(static_cast<PolicyParameter>(i)))
      names.emplace_back(kPolicyParameterNames[i]);
  }
  return names;
}

PolicySpec ReadPolicySpec(YamlReader yaml) {
  PolicySpec spec;
  yaml.RejectFormerKey("policy", "type");
  yaml.RejectFormerKey("for", "selector");
  std::string word;
  yaml.Field("type", &word, Need::kRequired);
  const std::optional<PolicyKind> type = ParsePolicyKind(word);
  if (yaml.Has("type") && !type) {
    yaml.Reject("type",
                absl::StrCat("unknown policy type '", word, "'", DidYouMean(word, PolicyNames())));
  }
  spec.type = type.value_or(spec.type);
  spec.parameters = ReadParameters(yaml.Child("parameters"), type);

  YamlReader selector = yaml.Child("selector");
  spec.tenants = ReadUniqueList(&selector, "tenants");
  spec.communicators = ReadUniqueList(&selector, "communicators");
  for (const char* list : {"tenants", "communicators"}) {
    if (selector.Has(list) && spec.tenants.empty() && spec.communicators.empty()) {
      selector.Reject(
          list,
          absl::StrCat("'", list,
                       "' is empty; name at least one, or remove the key to select all others"));
    }
  }
  CheckIds(spec.communicators, &selector);
  if (!spec.tenants.empty() && !spec.communicators.empty()) {
    selector.Reject("communicators",
                    "a policy selects either tenants or communicators; write two policies");
  }
  spec.sizes = ReadSizes(selector.Child("sizes"));
  if (selector.Has("sizes") && type && !spec.Decides(PolicyDecision::kAlgorithms)) {
    selector.Reject("sizes", absl::StrCat("policy ", word,
                                          " applies to all sizes; remove 'sizes', or use policy ",
                                          Name(PolicyKind::kAlgorithm)));
  }
  return spec;
}

void Emit(const PolicySpec& spec, YAML::Emitter* out) {
  const auto list = [&](const char* key, const std::vector<std::string>& names) {
    if (names.empty()) return;
    *out << YAML::Key << key << YAML::Value << YAML::Flow << names;
  };
  *out << YAML::BeginMap << YAML::Key << "type" << YAML::Value << Name(spec.type);
  if (spec.parameters != PolicyParameters()) {
    *out << YAML::Key << "parameters" << YAML::Value << YAML::BeginMap;
    if (spec.parameters.source_ports) {
      *out << YAML::Key << kSourcePorts << YAML::Value
           << FormatPortRange(*spec.parameters.source_ports);
    }
    if (spec.parameters.port_seed)
      *out << YAML::Key << kPortSeed << YAML::Value << *spec.parameters.port_seed;
    if (spec.parameters.channels_per_nic)
      *out << YAML::Key << kChannelsPerNic << YAML::Value << *spec.parameters.channels_per_nic;
    if (spec.parameters.algorithm)
      *out << YAML::Key << kAlgorithm << YAML::Value
           << std::string(Name(*spec.parameters.algorithm));
    for (const NameList& names : kNameLists)
      list(Name(names.parameter), spec.parameters.*names.names);
    *out << YAML::EndMap;
  }
  if (!spec.tenants.empty() || !spec.communicators.empty() || !spec.sizes.IsAll()) {
    *out << YAML::Key << "selector" << YAML::Value << YAML::BeginMap;
    list("tenants", spec.tenants);
    list("communicators", spec.communicators);
    if (!spec.sizes.IsAll()) {
      *out << YAML::Key << "sizes" << YAML::Value << YAML::Flow << YAML::BeginMap;
      if (spec.sizes.min_bytes > 0) {
        *out << YAML::Key << "min_bytes" << YAML::Value << ExactBytes(spec.sizes.min_bytes);
      }
      if (spec.sizes.max_bytes != SizeRange::kUnlimited) {
        *out << YAML::Key << "max_bytes" << YAML::Value << ExactBytes(spec.sizes.max_bytes);
      }
      *out << YAML::EndMap;
    }
    *out << YAML::EndMap;
  }
  *out << YAML::EndMap;
}

std::vector<OpKind> KindsOf(const PolicySpec& policy) {
  std::vector<OpKind> kinds;
  for (int i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const auto& calls = policy.parameters.calls;
    const bool meant = HasChoice(kind) && policy.parameters.algorithm &&
                       Supports(*policy.parameters.algorithm, kind);
    if (meant && (calls.empty() || Contains(calls, Name(kind)))) kinds.push_back(kind);
  }
  return kinds;
}

std::string SelectorText(const PolicySpec& spec) {
  const auto named = [](const char* one, const std::vector<std::string>& names) {
    return absl::StrCat(one, names.size() == 1 ? " " : "s ", absl::StrJoin(names, ", "));
  };
  if (!spec.tenants.empty()) return named("tenant", spec.tenants);
  if (!spec.communicators.empty()) return named("communicator", spec.communicators);
  return "all others";
}

std::string ParametersText(const PolicyParameters& parameters) {
  std::vector<std::string> texts;
  const auto add = [&](PolicyParameter parameter, const auto&... value) {
    texts.push_back(absl::StrCat(Name(parameter), " ", value...));
  };
  if (const auto& ports = parameters.source_ports)
    add(PolicyParameter::kSourcePorts, FormatPortRange(*ports));
  if (parameters.port_seed) add(PolicyParameter::kPortSeed, *parameters.port_seed);
  if (parameters.channels_per_nic)
    add(PolicyParameter::kChannelsPerNic, *parameters.channels_per_nic);
  if (parameters.algorithm)
    add(PolicyParameter::kAlgorithm, std::string(Name(*parameters.algorithm)));
  for (const NameList& list : kNameLists) {
    const std::vector<std::string>& names = parameters.*list.names;
    if (!names.empty()) add(list.parameter, absl::StrJoin(names, ","));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace mccs
