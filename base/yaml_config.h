// Reads YAML configuration strictly into typed fields. Unknown or invalid input is rejected with
// its position:
//
//   lab/h0.yaml:4:1: unknown key 'listne'; did you mean 'listen'?
//
//   MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(path));
//   yaml.Field("listen", &config.listen);
//   YamlReader lanes = yaml.Child("lanes");
//   lanes.Bytes("slot_bytes", &config.slot_bytes);
//   MCCS_RETURN_IF_ERROR(yaml.Finish());
//
// An absent field keeps its value: the struct has the defaults. Finish() returns all errors in the
// order of the file. A program exits with kExitBadConfiguration on any error of this reader.
//
// THREAD: one at a time; documents share nothing.
#ifndef MCCS_BASE_YAML_CONFIG_H_
#define MCCS_BASE_YAML_CONFIG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs {

// Exit status of a program with an invalid configuration or command line.
inline constexpr int kExitBadConfiguration = 2;

enum class Need { kOptional, kRequired };

// Both start at 1.
struct YamlPosition {
  int line = 0;
  int column = 0;
};

// One key of a format, for the reference documentation.
struct YamlKey {
  std::string path;  // "lanes.slots"; "[]" after a list: "hosts[].name"
  std::string type;  // "integer", "list of mappings"
  bool required = false;
  std::string default_value;  // empty: none
};

// One mapping of the document. Copies refer to the same mapping.
class YamlReader {
 public:
  // kNotFound: the file is not readable. kInvalidArgument: malformed YAML, more than CheckYaml
  // permits, not exactly one mapping, or a duplicate key. An empty document is an empty mapping.
  static absl::StatusOr<YamlReader> Open(const std::string& path);
  // `name` replaces the path in errors.
  static absl::StatusOr<YamlReader> Parse(const std::string& text, const std::string& name);
  // All documents of a file, in order, without empty ones. They share their errors: Finish() of any
  // reports all, so call it once.
  static absl::StatusOr<std::vector<YamlReader>> ParseAll(const std::string& text,
                                                          const std::string& name);
  // A reader of no document, which adds each key that it is asked for to `keys`: it lists the keys
  // of a format by the code that reads it. Has() is true, and each list of mappings has one. Its
  // errors have no meaning. LIFETIME: `keys` outlives it.
  static YamlReader Record(std::vector<YamlKey>* keys);

  void Field(std::string_view key, std::string* out, Need need = Need::kOptional);
  void Field(std::string_view key, bool* out, Need need = Need::kOptional);
  void Field(std::string_view key, double* out, Need need = Need::kOptional);
  // Integers: decimal, within the range of the type.
  void Field(std::string_view key, uint16_t* out, Need need = Need::kOptional);
  void Field(std::string_view key, int32_t* out, Need need = Need::kOptional);
  void Field(std::string_view key, uint32_t* out, Need need = Need::kOptional);
  void Field(std::string_view key, uint64_t* out, Need need = Need::kOptional);
  // A list, "[a, b]" or one "- a" a line.
  void Field(std::string_view key, std::vector<std::string>* out, Need need = Need::kOptional);
  // A mapping of names to strings, in the order of the file; any keys are allowed.
  void Field(std::string_view key, std::vector<std::pair<std::string, std::string>>* out,
             Need need = Need::kOptional);
  // "16MiB", "4096" (ParseBytes).
  void Bytes(std::string_view key, uint64_t* out, Need need = Need::kOptional);

  // A text in another syntax. `type`: for the reference, "port range"; `wanted`: for errors, "a
  // range of ports such as 61000-61999". `parse` returns false for text that is not in it.
  void Parsed(std::string_view key, std::string_view type, std::string_view wanted,
              absl::FunctionRef<bool(const std::string&)> parse, Need need = Need::kOptional,
              const std::string& default_value = "");

  // "50Gbit/s", "200Mbit/s" (ParseBitRate), in bit/s; zero is rejected.
  void BitRate(std::string_view key, uint64_t* out_bps, Need need = Need::kOptional);

  // The mapping under `key`; empty if absent.
  YamlReader Child(std::string_view key, Need need = Need::kOptional);
  // The mappings of the list under `key`.
  std::vector<YamlReader> Children(std::string_view key, Need need = Need::kOptional);

  // The position of this mapping.
  YamlPosition Place() const;
  // The positions of all values of this mapping, recursively, by path from here:
  // "lanes.ports[1]". Of a text with long keys on many levels, not all.
  std::map<std::string, YamlPosition> Positions() const;

  // The value of `key` as YAML without comments, for a separate reader; empty if absent.
  std::string TextOf(std::string_view key, Need need = Need::kOptional);

  bool Has(std::string_view key) const;

  // Reports an invalid value: `why`, with the position of `key`'s value (of this mapping, if `key`
  // is absent).
  void Reject(std::string_view key, std::string_view why);

  // The same for one item of the list under `key`, counted from 0.
  void RejectItem(std::string_view key, size_t index, std::string_view why);

  // The line, from 1 on, of `key`'s value (of this mapping, if `key` is absent): for errors about
  // another position that mention this one.
  int Line(std::string_view key) const;

  // Rejects `former`, an earlier spelling of `key`, with the advice to use `key`, which is then not
  // reported as missing. Call before reading `key`.
  void RejectFormerKey(std::string_view former, std::string_view key);

  // Sets a prefix, such as "Tenant 'a'", for errors from this mapping's first line up to the next
  // mapping with a subject. Empty: none.
  void SetSubject(std::string subject);

  // Whether an error was found in the document so far; Finish() finds unknown keys.
  bool Rejected() const;

  // Call once, on any reader of the document, after reading all fields: keys that were not read are
  // unknown. OK, or kInvalidArgument with one line per error, at most kMaxErrors of them.
  absl::Status Finish();

  static constexpr size_t kMaxErrors = 10;

 private:
  struct Document;
  struct Mapping;
  struct Value;

  YamlReader(std::shared_ptr<Document> document, Mapping* mapping);

  // The value of `key`; nothing if absent.
  Value Find(std::string_view key) const;
  // The value of `key`, which is a known key from now on; nothing if absent. `type` and
  // `default_value` are for Record.
  Value Take(std::string_view key, Need need, std::string_view type,
             std::string default_value = "");
  template <typename Int>
  void Integer(std::string_view key, Int* out, Need need);

  std::shared_ptr<Document> document_;
  Mapping* mapping_;  // owned by document_
};

// Prints the keys of a format, for the reference documentation: one line per key, without
// duplicates: FORMAT, path, type, "required" or "optional", default, separated by tabs.
void PrintKeys(std::string_view format, const std::vector<YamlKey>& keys, std::ostream* out);

}  // namespace mccs

#endif  // MCCS_BASE_YAML_CONFIG_H_
