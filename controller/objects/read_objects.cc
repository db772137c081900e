#include "controller/objects/read_objects.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/closest_word.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"
#include "topology/topology_reader.h"

namespace mccs {
namespace {

bool IsObjectName(const std::string& name) {
  const auto ordinary = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kLongestObjectName &&
         std::all_of(name.begin(), name.end(), ordinary) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.front()));
}

std::optional<ObjectKind> ReadKind(YamlReader* document) {
  std::string version, kind;
  document->Field("apiVersion", &version, Need::kRequired);
  if (document->Has("apiVersion") && version != kApiVersion) {
    document->Reject("apiVersion",
                     absl::StrCat("unsupported version '", version, "': expected ", kApiVersion));
  }
  document->Field("kind", &kind, Need::kRequired);
  const std::optional<ObjectKind> known = ParseKind(kind);
  if (known || !document->Has("kind")) return known;
  std::vector<std::string> kinds;
  for (ObjectKind each : kObjectKinds) kinds.push_back(KindName(each));
  const std::string expected = absl::StrCat("expected one of: ", absl::StrJoin(kinds, ", "));
  document->Reject("kind",
                   absl::StrCat("unknown kind '", kind, "'", Suggestion(kind, kinds, expected)));
  return std::nullopt;
}

void ReadMetadata(YamlReader metadata, Object* object) {
  metadata.Field("name", &object->key.name, Need::kRequired);
  metadata.Field("resourceVersion", &object->version);
  if (metadata.Has("name") && !IsObjectName(object->key.name)) {
    metadata.Reject(
        "name",
        absl::StrCat("invalid name '", object->key.name, "': expected up to ", kLongestObjectName,
                     " letters, digits, '-', '_' and '.', starting with a letter or a digit"));
  }
  if (metadata.Has("resourceVersion") && object->version == 0) {
    metadata.Reject("resourceVersion",
                    "versions start at 1; omit it to replace any stored version");
  }
}

TopologySpec ReadTopologyObject(YamlReader document, const std::string& name) {
  TopologySpec spec;
  spec.text = document.TextOf("spec", Need::kRequired);
  if (!document.Has("spec")) return spec;
  spec.topology = std::make_shared<const Topology>(ReadTopologySpec(document.Child("spec"), name));
  return spec;
}

// The reader collects errors.
std::optional<Object> ReadObject(YamlReader document) {
  document.SetSubject("");  // Clears the previous document's subject.
  const std::optional<ObjectKind> kind = ReadKind(&document);
  Object object;
  ReadMetadata(document.Child("metadata", Need::kRequired), &object);
  if (!kind) {
    (void)document.TextOf("spec");  // Marks it as read: without a kind it cannot be checked.
    return std::nullopt;
  }
  object.key.kind = *kind;
  if (!object.key.name.empty()) document.SetSubject(ToText(object.key));
  switch (*kind) {
    case ObjectKind::kTenant:
      object.spec = ReadTenantSpec(document.Child("spec", Need::kRequired), object.key.name);
      break;
    case ObjectKind::kPolicy:
      object.spec = ReadPolicySpec(document.Child("spec", Need::kRequired));
      break;
    case ObjectKind::kTopology:
      object.spec = ReadTopologyObject(document, object.key.name);
      break;
    case ObjectKind::kDrain:
      object.spec = ReadDrainSpec(document.Child("spec", Need::kRequired));
      break;
  }
  return object;
}

absl::Status ReadFile(const ObjectFile& file, std::vector<Object>* objects) {
  MCCS_ASSIGN_OR_RETURN(std::vector<YamlReader> documents,
                        YamlReader::ParseAll(file.text, file.name));
  for (const YamlReader& document : documents) {
    std::optional<Object> object = ReadObject(document);
    if (!object) continue;
    object->origin = {file.name, document.Place(), document.Positions()};
    objects->push_back(*std::move(object));
  }
  return documents.empty() ? absl::OkStatus() : documents[0].Finish();
}

}  // namespace

absl::StatusOr<std::vector<Object>> ReadObjects(const std::vector<ObjectFile>& files) {
  size_t bytes = 0;
  for (const ObjectFile& file : files) bytes += file.text.size();
  if (bytes > kMaxObjectTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(files[0].name, ": the files of one request exceed ", kMaxObjectTextBytes >> 20,
                     " MiB in total; apply them in several calls"));
  }
  std::vector<Object> objects;
  std::string faults;
  for (const ObjectFile& file : files) {
    const absl::Status read = ReadFile(file, &objects);
    if (read.ok()) continue;
    absl::StrAppend(&faults, faults.empty() ? "" : "\n", std::string(read.message()));
  }
  if (!faults.empty()) return absl::InvalidArgumentError(faults);
  if (objects.empty() && !files.empty()) {
    std::vector<std::string> names;
    for (const ObjectFile& file : files) names.push_back(file.name);
    return absl::InvalidArgumentError(absl::StrCat(
        absl::StrJoin(names, ", "),
        ": no object found; write a document with apiVersion, kind, metadata and spec"));
  }
  return objects;
}

std::vector<YamlKey> ObjectFields(ObjectKind kind) {
  std::vector<YamlKey> keys;
  YamlReader document = YamlReader::Record(&keys);
  ReadKind(&document);
  Object object;
  ReadMetadata(document.Child("metadata", Need::kRequired), &object);
  YamlReader spec = document.Child("spec", Need::kRequired);
  switch (kind) {
    case ObjectKind::kTenant:
      ReadTenantSpec(spec, "");
      break;
    case ObjectKind::kPolicy:
      ReadPolicySpec(spec);
      break;
    case ObjectKind::kTopology:
      ReadTopologySpec(spec, "");
      break;
    case ObjectKind::kDrain:
      ReadDrainSpec(spec);
      break;
  }
  return keys;
}

}  // namespace mccs
