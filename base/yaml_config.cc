#include "base/yaml_config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/closest_word.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/yaml_limits.h"

namespace mccs {
namespace {

constexpr char kQuotedTag[] = "!";  // what yaml-cpp calls the tag of a scalar in quotes

std::string Describe(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map:
      return "a mapping";
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Scalar:
      return node.Tag() == kQuotedTag ? absl::StrCat("the string \"", node.Scalar(), "\"")
                                      : absl::StrCat("'", node.Scalar(), "'");
    default:
      return "nothing";
  }
}

bool IsPlain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != kQuotedTag; }

std::string PlaceOf(const std::string& name, const YAML::Mark& mark) {
  return absl::StrCat(name, ":", mark.line + 1, ":", mark.column + 1, ": ");
}

// The documents of `text`, each a mapping or empty.
absl::StatusOr<std::vector<YAML::Node>> LoadMappings(const std::string& text,
                                                     const std::string& name) {
  // yaml-cpp takes any bytes, but writes others than it has read. It takes a null byte for an
  // escape.
  MCCS_RETURN_IF_ERROR(CheckText(text, name));
  MCCS_RETURN_IF_ERROR(CheckYaml(text, name));
  std::vector<YAML::Node> roots;
  try {
    roots = YAML::LoadAll(text);
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat(PlaceOf(name, e.mark), "malformed YAML: ", e.msg));
  }
  for (const YAML::Node& root : roots) {
    if (root.IsNull() || root.IsMap()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceOf(name, root.Mark()), "expected 'key: value' lines, found ", Describe(root)));
  }
  return roots;
}

// Collects the position of each value of a document. Each use of an alias is walked again.
class PositionCollector {
 public:
  void Walk(const YAML::Node& node, const std::string& path) {
    // Long keys on many levels: the positions collected so far must do.
    if (path_bytes_ > kMaxPathBytes) return;
    path_bytes_ += path.size();
    if (!path.empty())
      places_.emplace(path, YamlPosition{node.Mark().line + 1, node.Mark().column + 1});
    if (node.IsSequence()) {
      for (size_t i = 0; i < node.size(); ++i) Walk(node[i], absl::StrCat(path, "[", i, "]"));
    }
    if (!node.IsMap()) return;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) continue;
      const std::string& key = entry.first.Scalar();
      Walk(entry.second, path.empty() ? key : absl::StrCat(path, ".", key));
    }
  }

  std::map<std::string, YamlPosition> Take() { return std::move(places_); }

 private:
  static constexpr size_t kMaxPathBytes = 64 << 20;

  size_t path_bytes_ = 0;
  std::map<std::string, YamlPosition> places_;
};

}  // namespace

// A mapping of the file and the keys that were read.
struct YamlReader::Mapping {
  YAML::Node node;        // a map, or null where the mapping is absent
  std::string path;       // "lanes.", for errors about missing keys
  YAML::Mark mark;        // if absent, of the enclosing mapping
  bool rejected = false;  // as a whole, already: do not report missing keys in it
  std::vector<std::string> known = {};
  std::vector<std::string> renamed = {};  // keys that are present in an earlier spelling
};

struct YamlReader::Value : std::optional<YAML::Node> {};

struct YamlReader::Document {
  static constexpr size_t kMaxKeptErrors = 1000;

  struct Error {
    int line, column;
    std::string text;
  };

  std::string name;
  std::vector<std::unique_ptr<Mapping>> mappings;
  std::vector<Error> errors;
  size_t omitted_errors = 0;               // beyond kMaxKeptErrors
  std::map<int, std::string> subjects;     // by first line
  std::vector<YamlKey>* record = nullptr;  // null: a real document

  // The position of `value`; if absent, that of `mapping`.
  static YAML::Mark MarkOf(const Mapping& mapping, const Value& value) {
    return value ? value->Mark() : mapping.mark;
  }

  void Add(const YAML::Mark& mark, std::string text) {
    if (KeepsMore()) {
      errors.push_back({mark.line + 1, mark.column + 1, std::move(text)});
    } else {
      ++omitted_errors;
    }
  }

  // Whether errors are still kept. A text may have hundreds of thousands.
  bool KeepsMore() const { return errors.size() < kMaxKeptErrors; }

  // "name:7:3: Tenant 'a': why".
  std::string TextOf(const Error& error) const {
    const auto behind = subjects.upper_bound(error.line);
    const std::string subject = behind == subjects.begin() ? "" : std::prev(behind)->second;
    return absl::StrCat(name, ":", error.line, ":", error.column, ": ", subject,
                        subject.empty() ? "" : ": ", error.text);
  }

  void Expected(const YAML::Node& found, std::string_view key, std::string_view wanted) {
    Add(found.Mark(), absl::StrCat("'", std::string(key), "': expected ", std::string(wanted),
                                   ", found ", Describe(found)));
  }

  Mapping* NewMapping(const YAML::Node& node, std::string path) {
    return Keep(
        {.node = node, .path = std::move(path), .mark = node.IsMap() ? node.Mark() : YAML::Mark()});
  }

  Mapping* Keep(Mapping mapping) {
    CheckKeys(mapping.node);
    mappings.push_back(std::make_unique<Mapping>(std::move(mapping)));
    return mappings.back().get();
  }

  // Checks that each key is a scalar and unique.
  void CheckKeys(const YAML::Node& node) {
    if (!node.IsMap()) return;
    absl::flat_hash_map<std::string_view, int> lines;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        Add(entry.first.Mark(),
            absl::StrCat("a key must be a scalar, not ", Describe(entry.first)));
        continue;
      }
      const std::string& key = entry.first.Scalar();
      const auto [first, is_new] = lines.try_emplace(key, entry.first.Mark().line + 1);
      if (is_new) continue;
      Add(entry.first.Mark(),
          absl::StrCat("duplicate key '", key, "'; it is already on line ", first->second));
    }
  }

  void CheckUnknown(const Mapping& mapping) {
    if (!mapping.node.IsMap()) return;
    for (const auto& entry : mapping.node) {
      if (!entry.first.IsScalar()) continue;
      const std::string& key = entry.first.Scalar();
      if (std::find(mapping.known.begin(), mapping.known.end(), key) != mapping.known.end())
        continue;
      if (!KeepsMore()) {
        ++omitted_errors;
        continue;
      }
      const std::string keys = absl::StrCat("known keys: ", absl::StrJoin(mapping.known, " "));
      Add(entry.first.Mark(),
          absl::StrCat("unknown key '", key, "'", Suggestion(key, mapping.known, keys)));
    }
  }
};

YamlReader::YamlReader(std::shared_ptr<Document> document, Mapping* mapping)
    : document_(std::move(document)), mapping_(mapping) {}

absl::StatusOr<YamlReader> YamlReader::Open(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("cannot read the configuration file ", path,
                                            "; check the path, and that this user may read it"));
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) {
    return absl::NotFoundError(absl::StrCat("cannot read the configuration file ", path,
                                            "; check the path, and that this user may read it"));
  }
  return Parse(text.str(), path);
}

absl::StatusOr<std::vector<YamlReader>> YamlReader::ParseAll(const std::string& text,
                                                             const std::string& name) {
  auto document = std::make_shared<Document>();
  document->name = name;
  std::vector<YamlReader> readers;
  MCCS_ASSIGN_OR_RETURN(const std::vector<YAML::Node> roots, LoadMappings(text, name));
  for (const YAML::Node& root : roots) {
    if (root.IsNull()) continue;
    readers.push_back(YamlReader(document, document->NewMapping(root, "")));
  }
  return readers;
}

absl::StatusOr<YamlReader> YamlReader::Parse(const std::string& text, const std::string& name) {
  MCCS_ASSIGN_OR_RETURN(const std::vector<YAML::Node> roots, LoadMappings(text, name));
  if (roots.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(PlaceOf(name, roots[1].Mark()),
                                                   "a second document begins here; expected one"));
  }
  auto document = std::make_shared<Document>();
  document->name = name;
  Mapping* mapping = document->NewMapping(roots.empty() ? YAML::Node() : roots[0], "");
  return YamlReader(std::move(document), mapping);
}

YamlReader YamlReader::Record(std::vector<YamlKey>* keys) {
  auto document = std::make_shared<Document>();
  document->record = keys;
  Mapping* mapping = document->NewMapping(YAML::Node(), "");
  return YamlReader(std::move(document), mapping);
}

YamlReader::Value YamlReader::Find(std::string_view key) const {
  if (mapping_->node.IsMap()) {
    for (const auto& entry : mapping_->node) {
      if (entry.first.IsScalar() && entry.first.Scalar() == key) return Value{entry.second};
    }
  }
  return Value{};
}

YamlReader::Value YamlReader::Take(std::string_view key, Need need, std::string_view type,
                                   std::string default_value) {
  mapping_->known.emplace_back(key);
  if (document_->record != nullptr) {
    document_->record->push_back({.path = absl::StrCat(mapping_->path, std::string(key)),
                                  .type = std::string(type),
                                  .required = need == Need::kRequired,
                                  .default_value = std::move(default_value)});
    return Value{};
  }
  if (Value value = Find(key)) return value;
  const auto& renamed = mapping_->renamed;
  const bool present = std::find(renamed.begin(), renamed.end(), key) != renamed.end();
  if (need == Need::kRequired && !mapping_->rejected && !present) {
    Reject(key, absl::StrCat("the key '", mapping_->path, std::string(key), "' is missing"));
  }
  return Value{};
}

void YamlReader::Field(std::string_view key, std::string* out, Need need) {
  const Value value = Take(key, need, "string", *out);
  if (!value) return;
  if (!value->IsScalar()) {
    return document_->Expected(*value, key, "a string");
  }
  *out = value->Scalar();
}

void YamlReader::Field(std::string_view key, bool* out, Need need) {
  const Value value = Take(key, need, "true or false", *out ? "true" : "false");
  if (!value) return;
  if (!IsPlain(*value) || (value->Scalar() != "true" && value->Scalar() != "false")) {
    return document_->Expected(*value, key, "true or false");
  }
  *out = value->Scalar() == "true";
}

void YamlReader::Field(std::string_view key, double* out, Need need) {
  const Value value = Take(key, need, "number", absl::StrCat(*out));
  if (!value) return;
  double number = 0;
  if (!IsPlain(*value) || !absl::SimpleAtod(value->Scalar(), &number)) {
    return document_->Expected(*value, key, "a number");
  }
  *out = number;
}

template <typename Int>
void YamlReader::Integer(std::string_view key, Int* out, Need need) {
  using Wide = std::conditional_t<std::is_signed_v<Int>, int64_t, uint64_t>;
  constexpr Wide kLowest = std::numeric_limits<Int>::min();
  constexpr Wide kHighest = std::numeric_limits<Int>::max();
  const Value value = Take(key, need, "integer", absl::StrCat(*out));
  if (!value) return;
  Wide number = 0;
  if (!IsPlain(*value) || !absl::SimpleAtoi(value->Scalar(), &number) || number < kLowest ||
      number > kHighest) {
    const bool any = std::is_signed_v<Int>;
    return document_->Expected(
        *value, key,
        any ? "an integer" : absl::StrCat("an integer from ", kLowest, " to ", kHighest));
  }
  *out = static_cast<Int>(number);
}

void YamlReader::Field(std::string_view key, uint16_t* out, Need need) { Integer(key, out, need); }
void YamlReader::Field(std::string_view key, int32_t* out, Need need) { Integer(key, out, need); }
void YamlReader::Field(std::string_view key, uint32_t* out, Need need) { Integer(key, out, need); }
void YamlReader::Field(std::string_view key, uint64_t* out, Need need) { Integer(key, out, need); }

void YamlReader::Field(std::string_view key, std::vector<std::string>* out, Need need) {
  const Value value = Take(key, need, "list of strings");
  if (!value) return;
  if (!value->IsSequence()) {
    return document_->Expected(*value, key, "a list");
  }
  std::vector<std::string> items;
  for (const YAML::Node& item : *value) {
    if (item.IsScalar()) {
      items.push_back(item.Scalar());
    } else {
      document_->Expected(item, key, "a list of strings");
    }
  }
  *out = std::move(items);
}

void YamlReader::Field(std::string_view key, std::vector<std::pair<std::string, std::string>>* out,
                       Need need) {
  const Value value = Take(key, need, "mapping of strings");
  if (!value) return;
  if (!value->IsMap()) {
    return document_->Expected(*value, key, "'name: string' lines");
  }
  document_->CheckKeys(*value);
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& entry : *value) {
    if (entry.first.IsScalar() && entry.second.IsScalar()) {
      items.emplace_back(entry.first.Scalar(), entry.second.Scalar());
    } else if (entry.first.IsScalar()) {
      document_->Expected(entry.second, entry.first.Scalar(), "a string");
    }
  }
  *out = std::move(items);
}

void YamlReader::Parsed(std::string_view key, std::string_view type, std::string_view wanted,
                        absl::FunctionRef<bool(const std::string&)> parse, Need need,
                        const std::string& default_value) {
  const Value value = Take(key, need, type, default_value);
  if (!value) return;
  if (!value->IsScalar() || !parse(value->Scalar())) document_->Expected(*value, key, wanted);
}

void YamlReader::Bytes(std::string_view key, uint64_t* out, Need need) {
  const auto parse = [&](const std::string& text) {
    const auto bytes = ParseBytes(text);
    if (bytes) *out = *bytes;
    return bytes.has_value();
  };
  Parsed(key, "size", "a number of bytes, such as 4096 or 16MiB", parse, need,
         *out == 0 ? "" : FormatBytes(*out));
}

void YamlReader::BitRate(std::string_view key, uint64_t* out_bps, Need need) {
  const auto parse = [&](const std::string& text) {
    const auto bps = ParseBitRate(text);
    if (bps.value_or(0) == 0) return false;
    *out_bps = *bps;
    return true;
  };
  Parsed(key, "rate", "a rate above zero with its unit, such as 50Gbit/s or 200Mbit/s", parse, need,
         *out_bps == 0 ? "" : FormatBitRate(static_cast<double>(*out_bps)));
}

YamlReader YamlReader::Child(std::string_view key, Need need) {
  const Value value = Take(key, need, "mapping");
  const std::string path = absl::StrCat(mapping_->path, std::string(key), ".");
  if (value && !value->IsMap() && !value->IsNull()) {
    document_->Expected(*value, key, "a mapping");
  }
  if (value && value->IsMap()) return YamlReader(document_, document_->NewMapping(*value, path));
  const bool rejected = mapping_->rejected || (value ? !value->IsNull() : need == Need::kRequired);
  return YamlReader(document_, document_->Keep({.node = YAML::Node(),
                                                .path = path,
                                                .mark = Document::MarkOf(*mapping_, value),
                                                .rejected = rejected}));
}

std::vector<YamlReader> YamlReader::Children(std::string_view key, Need need) {
  const Value value = Take(key, need, "list of mappings");
  std::vector<YamlReader> readers;
  if (document_->record != nullptr) {
    const std::string path = absl::StrCat(mapping_->path, std::string(key), "[].");
    readers.push_back(YamlReader(document_, document_->NewMapping(YAML::Node(), path)));
  }
  if (!value) return readers;
  if (!value->IsSequence()) {
    document_->Expected(*value, key, "a list of mappings");
    return readers;
  }
  for (const YAML::Node& item : *value) {
    if (!item.IsMap()) {
      document_->Expected(item, key, "a list of mappings");
      continue;
    }
    const std::string path =
        absl::StrCat(mapping_->path, std::string(key), "[", readers.size(), "].");
    readers.push_back(YamlReader(document_, document_->NewMapping(item, path)));
  }
  return readers;
}

std::map<std::string, YamlPosition> YamlReader::Positions() const {
  PositionCollector walk;
  walk.Walk(mapping_->node, "");
  return walk.Take();
}

YamlPosition YamlReader::Place() const {
  const YAML::Mark mark = Document::MarkOf(*mapping_, Value{});
  return {mark.line + 1, mark.column + 1};
}

std::string YamlReader::TextOf(std::string_view key, Need need) {
  const Value value = Take(key, need, "mapping");
  if (!value) return "";
  YAML::Emitter emitter;
  emitter << *value;
  return emitter.c_str();
}

bool YamlReader::Has(std::string_view key) const {
  return document_->record != nullptr || static_cast<bool>(Find(key));
}

void YamlReader::Reject(std::string_view key, std::string_view why) {
  document_->Add(Document::MarkOf(*mapping_, Find(key)), std::string(why));
}

void YamlReader::RejectFormerKey(std::string_view former, std::string_view key) {
  if (!Has(former)) return;
  mapping_->known.emplace_back(former);
  mapping_->renamed.emplace_back(key);
  Reject(former, absl::StrCat("the key '", mapping_->path, std::string(former),
                              "' was renamed; use '", std::string(key), "'"));
}

void YamlReader::RejectItem(std::string_view key, size_t index, std::string_view why) {
  const Value value = Find(key);
  if (!value || !value->IsSequence() || index >= value->size()) return Reject(key, why);
  document_->Add((*value)[index].Mark(), std::string(why));
}

int YamlReader::Line(std::string_view key) const {
  return Document::MarkOf(*mapping_, Find(key)).line + 1;
}

void YamlReader::SetSubject(std::string subject) {
  document_->subjects[mapping_->mark.line + 1] = std::move(subject);
}

bool YamlReader::Rejected() const { return !document_->errors.empty(); }

absl::Status YamlReader::Finish() {
  for (const auto& mapping : document_->mappings) document_->CheckUnknown(*mapping);
  auto& errors = document_->errors;
  if (errors.empty()) return absl::OkStatus();
  std::stable_sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  // The same alias may be read several times: drop duplicate errors.
  const auto alike = [](const auto& a, const auto& b) {
    return std::tie(a.line, a.column, a.text) == std::tie(b.line, b.column, b.text);
  };
  errors.erase(std::unique(errors.begin(), errors.end(), alike), errors.end());
  std::string text;
  for (size_t i = 0; i < errors.size() && i < kMaxErrors; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "\n", document_->TextOf(errors[i]));
  }
  const size_t all = errors.size() + document_->omitted_errors;
  if (all > kMaxErrors) absl::StrAppend(&text, "\n(", all - kMaxErrors, " more)");
  return absl::InvalidArgumentError(text);
}

void PrintKeys(std::string_view format, const std::vector<YamlKey>& keys, std::ostream* out) {
  std::set<std::string> printed;
  for (const YamlKey& key : keys) {
    if (!printed.insert(key.path).second) continue;
    *out << format << '\t' << key.path << '\t' << key.type << '\t'
         << (key.required ? "required" : "optional") << '\t' << key.default_value << '\n';
  }
}

}  // namespace mccs
