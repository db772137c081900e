// Strict reading of YAML configuration into typed fields. What is not understood is refused, with
// its place:
//
//   lab/h0.yaml:4:1: unknown key 'listne'; did you mean 'listen'?
//
//   MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(path));
//   yaml.Field("listen", &config.listen);
//   yaml.Duration("heartbeat_timeout", &config.heartbeat_timeout_ns);
//   YamlReader lanes = yaml.Child("lanes");
//   lanes.Bytes("slot_bytes", &config.slot_bytes);
//   MCCS_RETURN_IF_ERROR(yaml.Finish());
//
// A field that is absent keeps the value it has: defaults stand in the struct, once. Everything
// that is wrong is collected and told by Finish() in the order of the file. A program ends with
// status kExitBadConfiguration on any error of this reader.
//
// THREAD: one; nothing is shared with other documents.
#ifndef MCCS_BASE_YAML_CONFIG_H_
#define MCCS_BASE_YAML_CONFIG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs {

// What a program's exit status is when its configuration or command line is wrong.
inline constexpr int kExitBadConfiguration = 2;

enum class Need { kOptional, kRequired };

// Both from 1 on.
struct YamlPlace {
  int line = 0;
  int column = 0;
};

// One mapping of the document. Copies speak of the same mapping.
class YamlReader {
 public:
  // kNotFound, kInvalidArgument: a file that cannot be read, malformed YAML, something else than
  // one mapping, a key that stands twice. An empty document is an empty mapping.
  static absl::StatusOr<YamlReader> Open(const std::string& path);
  // `name` stands where the path would stand in errors.
  static absl::StatusOr<YamlReader> Parse(const std::string& text, const std::string& name);
  // A file of several documents, in its order; empty ones are left out. They share their errors:
  // Finish() of any of them speaks of all, so call it once.
  static absl::StatusOr<std::vector<YamlReader>> ParseAll(const std::string& text,
                                                          const std::string& name);

  void Field(std::string_view key, std::string* out, Need need = Need::kOptional);
  void Field(std::string_view key, bool* out, Need need = Need::kOptional);
  void Field(std::string_view key, double* out, Need need = Need::kOptional);
  // Integers: decimal, within the range of the type.
  void Field(std::string_view key, uint16_t* out, Need need = Need::kOptional);
  void Field(std::string_view key, int32_t* out, Need need = Need::kOptional);
  void Field(std::string_view key, uint32_t* out, Need need = Need::kOptional);
  void Field(std::string_view key, int64_t* out, Need need = Need::kOptional);
  void Field(std::string_view key, uint64_t* out, Need need = Need::kOptional);
  // A list, "[a, b]" or one "- a" a line.
  void Field(std::string_view key, std::vector<std::string>* out, Need need = Need::kOptional);
  // A mapping of names to text, in the order of the file; its keys are free.
  void Field(std::string_view key, std::vector<std::pair<std::string, std::string>>* out,
             Need need = Need::kOptional);
  // "5s", "200ms" (ParseDurationNs).
  void Duration(std::string_view key, int64_t* out_ns, Need need = Need::kOptional);
  // "16MiB", "4096" (ParseBytes).
  void Bytes(std::string_view key, uint64_t* out, Need need = Need::kOptional);

  // "50Gbps", "200Mbps" (ParseBitRate); zero is refused.
  void BitRate(std::string_view key, uint64_t* out_bps, Need need = Need::kOptional);

  // The mapping under `key`; an empty one where it is absent.
  YamlReader Child(std::string_view key, Need need = Need::kOptional);
  // The mappings of the list under `key`.
  std::vector<YamlReader> Children(std::string_view key, Need need = Need::kOptional);

  // Where this mapping begins.
  YamlPlace Place() const;
  // Where every value of this mapping and of all below stands, by its path from here:
  // "lanes.ports[1]". kInvalidArgument: more than kMaxPlaces, or deeper than kMaxDepth.
  absl::StatusOr<std::map<std::string, YamlPlace>> Places() const;
  static constexpr size_t kMaxPlaces = 200'000;
  static constexpr size_t kMaxDepth = 32;

  // The value of `key` as YAML without comments, for a reader of its own; empty where it is absent.
  std::string TextOf(std::string_view key, Need need = Need::kOptional);

  bool Has(std::string_view key) const;

  // The caller found a value wrong: `why` is told with the place of `key`'s value (of this mapping,
  // where `key` is absent).
  void Refuse(std::string_view key, std::string_view why);

  // The same for one item of the list under `key`, counted from 0.
  void RefuseItem(std::string_view key, size_t index, std::string_view why);

  // The line, from 1 on, of `key`'s value (of this mapping, where `key` is absent): for texts that
  // speak of another place of the file.
  int Line(std::string_view key) const;

  // Faults from this mapping's first line on, until another one is given a subject, are told with
  // it: "Tenant 'a'". Empty: with none.
  void SetSubject(std::string subject);

  // Whether something of the document was found wrong so far; unknown keys are found by Finish().
  bool Refused() const;

  // Call once, on any reader of the document, when all fields have been asked for: what nobody
  // asked for is unknown. OK, or kInvalidArgument with one line per error, at most kMaxErrors of
  // them.
  absl::Status Finish();

  static constexpr size_t kMaxErrors = 10;

 private:
  struct Document;
  struct Mapping;
  struct Value;

  YamlReader(std::shared_ptr<Document> document, Mapping* mapping);

  // The value of `key`, wherever it stands; nothing where it is absent.
  Value Find(std::string_view key) const;
  // The value of `key`, which is known from now on; nothing where it is absent.
  Value Take(std::string_view key, Need need);
  template <typename Int>
  void Integer(std::string_view key, Int* out, Need need);

  std::shared_ptr<Document> document_;
  Mapping* mapping_;  // owned by document_
};

}  // namespace mccs

#endif  // MCCS_BASE_YAML_CONFIG_H_
