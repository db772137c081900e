#include "controller/objects/tenant_spec.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "controller/objects/spec_fields.h"
#include "proto/cgroup_pattern.h"

namespace mccs {
namespace {

std::vector<uint32_t> ReadUids(const std::vector<std::string>& words, YamlReader* selector) {
  std::vector<uint32_t> uids;
  for (size_t i = 0; i < words.size(); ++i) {
    uint32_t uid = 0;
    if (absl::SimpleAtoi(words[i], &uid)) {
      uids.push_back(uid);
    } else {
      selector->RejectItem(
          "uids", i,
          absl::StrCat("invalid user id '", words[i], "': expected a number, as shown by `id -u`"));
    }
  }
  return uids;
}

// True: at least one entry is present, even if invalid.
bool ReadSelector(YamlReader selector, TenantSpec* spec) {
  const std::vector<std::string> uids = ReadUniqueList(&selector, "uids");
  spec->uids = ReadUids(uids, &selector);
  spec->sockets = ReadUniqueList(&selector, "sockets");
  spec->cgroups = ReadUniqueList(&selector, "cgroups");
  for (size_t i = 0; i < spec->cgroups.size(); ++i) {
    const std::string why_not = WhyNotCgroupPattern(spec->cgroups[i]);
    if (!why_not.empty()) {
      selector.RejectItem(
          "cgroups", i, absl::StrCat("invalid control group '", spec->cgroups[i], "': ", why_not));
    }
  }
  return !uids.empty() || !spec->sockets.empty() || !spec->cgroups.empty();
}

std::optional<uint32_t> ReadId(YamlReader* socket, std::string_view key) {
  uint32_t id = 0;
  const bool present = socket->Has(key);
  socket->Field(key, &id);
  return present ? std::optional(id) : std::nullopt;
}

std::vector<DeclaredSocket> ReadSockets(YamlReader* yaml) {
  std::vector<DeclaredSocket> sockets;
  std::set<std::string> paths;
  for (YamlReader& entry : yaml->Children("sockets")) {
    DeclaredSocket socket;
    std::string mode = "0660";
    entry.Field("path", &socket.path, Need::kRequired);
    entry.Field("mode", &mode);
    socket.uid = ReadId(&entry, "uid");
    socket.gid = ReadId(&entry, "gid");
    const std::string why_not = WhyNotSocketPath(socket.path);
    if (entry.Has("path") && !why_not.empty()) {
      entry.Reject("path", absl::StrCat("invalid socket path '", socket.path, "': ", why_not));
    } else if (!paths.insert(socket.path).second) {
      entry.Reject("path", absl::StrCat("'", socket.path, "' is a duplicate; remove it"));
    }
    const char* end = mode.data() + mode.size();
    if (std::from_chars(mode.data(), end, socket.mode, 8).ptr != end || socket.mode > 0777) {
      entry.Reject("mode", "'mode': expected an octal file mode such as \"0660\"");
    }
    sockets.push_back(std::move(socket));
  }
  if (sockets.size() > kMaxSocketsPerTenant) {
    yaml->Reject("sockets", absl::StrCat("'sockets' has ", sockets.size(), " entries: expected ",
                                         kMaxSocketsPerTenant, " or fewer"));
  }
  return sockets;
}

// A limit of at least 1 under `key`.
std::optional<uint64_t> ReadLimit(YamlReader* quotas, std::string_view key, bool bytes) {
  if (!quotas->Has(key)) {
    uint64_t absent = 0;
    quotas->Field(key, &absent);
    return std::nullopt;
  }
  uint64_t limit = 1;
  if (bytes) {
    quotas->Bytes(key, &limit);
  } else {
    quotas->Field(key, &limit);
  }
  if (limit == 0) {
    quotas->Reject(
        key, absl::StrCat("'", std::string(key), "': expected 1 or more; omit it for no limit"));
  }
  return limit;
}

std::optional<uint64_t> ReadRate(YamlReader* spec, std::string_view key) {
  uint64_t rate = 0;
  spec->BitRate(key, &rate);
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

}  // namespace

TenantSpec ReadTenantSpec(YamlReader yaml, const std::string& name) {
  TenantSpec spec;
  yaml.RejectFormerKey("who", "selector");
  spec.declared_sockets = ReadSockets(&yaml);
  if (!spec.declared_sockets.empty()) spec.declared = name;
  spec.unclaimed = name == kDefaultTenant;
  const bool optional = yaml.Has("sockets") || spec.unclaimed;
  const bool any =
      ReadSelector(yaml.Child("selector", optional ? Need::kOptional : Need::kRequired), &spec);
  if (yaml.Has("selector") && !any)
    yaml.Reject("selector", "'selector' is empty: give uids, sockets or cgroups");
  yaml.Field("weight", &spec.weight);
  if (!(spec.weight >= kLowestWeight && spec.weight <= kHighestWeight)) {
    yaml.Reject("weight", absl::StrCat("'weight': expected ", ExactNumber(kLowestWeight), " to ",
                                       ExactNumber(kHighestWeight)));
  }
  spec.guarantee_bps = ReadRate(&yaml, "guarantee");
  spec.cap_bps = ReadRate(&yaml, "cap");
  yaml.Field("priority", &spec.priority);
  if (spec.priority > kHighestTenantPriority) {
    yaml.Reject("priority", absl::StrCat("'priority': expected 0 to ", kHighestTenantPriority));
  }
  YamlReader quotas = yaml.Child("quotas");
  spec.max_communicators = ReadLimit(&quotas, "communicators", /*bytes=*/false);
  spec.max_memory_bytes = ReadLimit(&quotas, "memory", /*bytes=*/true);
  spec.max_operations = ReadLimit(&quotas, "operations", /*bytes=*/false);
  if (spec.unclaimed && !(spec.max_communicators && spec.max_memory_bytes && spec.max_operations)) {
    yaml.Reject("quotas",
                "Tenant 'default' has the processes that no Tenant selects: give it quotas for "
                "communicators, memory and operations");
  }
  return spec;
}

void Emit(const TenantSpec& spec, YAML::Emitter* out) {
  const auto list = [&](const char* key, const auto& values) {
    if (values.empty()) return;
    *out << YAML::Key << key << YAML::Value << YAML::Flow << YAML::BeginSeq;
    for (const auto& value : values) *out << value;
    *out << YAML::EndSeq;
  };
  *out << YAML::BeginMap;
  if (!spec.declared_sockets.empty()) {
    *out << YAML::Key << "sockets" << YAML::Value << YAML::BeginSeq;
    for (const DeclaredSocket& socket : spec.declared_sockets) {
      *out << YAML::Flow << YAML::BeginMap << YAML::Key << "path" << YAML::Value << socket.path
           << YAML::Key << "mode" << YAML::Value << YAML::DoubleQuoted << ModeText(socket.mode);
      if (socket.uid) *out << YAML::Key << "uid" << YAML::Value << *socket.uid;
      if (socket.gid) *out << YAML::Key << "gid" << YAML::Value << *socket.gid;
      *out << YAML::EndMap;
    }
    *out << YAML::EndSeq;
  }
  if (!spec.uids.empty() || !spec.sockets.empty() || !spec.cgroups.empty()) {
    *out << YAML::Key << "selector" << YAML::Value << YAML::BeginMap;
    list("uids", spec.uids);
    list("sockets", spec.sockets);
    list("cgroups", spec.cgroups);
    *out << YAML::EndMap;
  }
  *out << YAML::Key << "weight" << YAML::Value << ExactNumber(spec.weight);
  if (spec.guarantee_bps) {
    *out << YAML::Key << "guarantee" << YAML::Value << ExactBitRate(*spec.guarantee_bps);
  }
  if (spec.cap_bps) *out << YAML::Key << "cap" << YAML::Value << ExactBitRate(*spec.cap_bps);
  *out << YAML::Key << "priority" << YAML::Value << spec.priority;
  if (spec.max_communicators || spec.max_memory_bytes || spec.max_operations) {
    *out << YAML::Key << "quotas" << YAML::Value << YAML::BeginMap;
    if (spec.max_communicators) {
      *out << YAML::Key << "communicators" << YAML::Value << *spec.max_communicators;
    }
    if (spec.max_memory_bytes) {
      *out << YAML::Key << "memory" << YAML::Value << ExactBytes(*spec.max_memory_bytes);
    }
    if (spec.max_operations) {
      *out << YAML::Key << "operations" << YAML::Value << *spec.max_operations;
    }
    *out << YAML::EndMap;
  }
  *out << YAML::EndMap;
}

std::string ModeText(uint32_t mode) { return absl::StrFormat("%04o", mode); }

std::string SocketsText(const TenantSpec& spec) {
  return absl::StrJoin(spec.declared_sockets, ", ",
                       [](std::string* out, const DeclaredSocket& socket) {
                         absl::StrAppend(out, socket.path, " (", ModeText(socket.mode), ")");
                       });
}

std::string ProcessesText(const TenantSpec& spec) {
  std::vector<std::string> parts;
  const auto add = [&](const char* one, const auto& values) {
    if (values.empty()) return;
    parts.push_back(
        absl::StrCat(one, values.size() == 1 ? " " : "s ", absl::StrJoin(values, ", ")));
  };
  add("uid", spec.uids);
  add("socket", spec.sockets);
  add("cgroup", spec.cgroups);
  if (spec.unclaimed) parts.push_back("all others");
  return absl::StrJoin(parts, "; ");
}

}  // namespace mccs
