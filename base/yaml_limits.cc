#include "base/yaml_limits.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

// Ends the parser's run.
class LimitExceeded final : public YAML::Exception {
  using YAML::Exception::Exception;
};

// The size of a value: itself and all below it, aliases expanded.
struct Extent {
  size_t values = 1;
  size_t height = 0;  // of levels below it
};

// Follows the parser, which builds nothing, and counts.
class Counter final : public YAML::EventHandler {
 public:
  const YAML::Mark& document() const { return document_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    document_ = mark;
    anchors_.clear();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { AddLeaf(mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& text) override {
    if (IsAtKey() && text.size() > kMaxYamlKeyBytes) {
      throw LimitExceeded(mark, absl::StrCat("a key has more than ", kMaxYamlKeyBytes, " bytes"));
    }
    AddLeaf(mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto extent = anchors_.find(anchor);
    if (extent == anchors_.end()) throw LimitExceeded(mark, "a value contains itself by an alias");
    Begin(mark, extent->second);
    End(kNoAnchor, extent->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, false);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, true);
  }
  void OnMapEnd() override { Close(); }

 private:
  static constexpr YAML::anchor_t kNoAnchor = 0;

  // A list or mapping that has begun.
  struct Frame {
    YAML::anchor_t anchor;
    bool is_map;
    bool at_key = true;  // of a mapping: a key comes next
    Extent extent = {};
  };

  bool IsAtKey() const { return !open_.empty() && open_.back().is_map && open_.back().at_key; }

  void AddLeaf(const YAML::Mark& mark, YAML::anchor_t anchor) {
    const Extent extent = {.values = IsAtKey() ? 0u : 1u};
    Begin(mark, extent);
    End(anchor, extent);
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_map) {
    Begin(mark, {});
    open_.push_back({.anchor = anchor, .is_map = is_map});
  }

  void Close() {
    const Frame frame = open_.back();
    open_.pop_back();
    End(frame.anchor, frame.extent);
  }

  // A value begins at the current level. `extent`: what is known of it.
  void Begin(const YAML::Mark& mark, const Extent& extent) {
    values_ += extent.values;
    if (values_ > kMaxYamlValues) {
      throw LimitExceeded(mark, absl::StrCat("too many values: at most ", kMaxYamlValues,
                                             " in a text, counting each use of an alias"));
    }
    if (open_.size() + extent.height > kMaxYamlDepth) {
      throw LimitExceeded(mark, absl::StrCat("nested too deeply: at most ", kMaxYamlDepth,
                                             " levels, counting those of an alias"));
    }
  }

  void End(YAML::anchor_t anchor, const Extent& extent) {
    if (anchor != kNoAnchor) anchors_[anchor] = extent;
    if (open_.empty()) return;
    Frame& above = open_.back();
    above.at_key = !above.at_key;
    above.extent.values += extent.values;
    above.extent.height = std::max(above.extent.height, extent.height + 1);
  }

  YAML::Mark document_ = YAML::Mark::null_mark();
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, Extent> anchors_;  // of values that have ended
  size_t values_ = 0;
};

// Throws if a token begins no value, such as a comma outside a list. The parser does not pass it,
// so YAML::LoadAll would take empty documents there until the memory is used up.
void ParseAll(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Counter counter;
  YAML::Mark before = YAML::Mark::null_mark();
  while (parser.HandleNextDocument(counter)) {
    if (counter.document().pos == before.pos) {
      throw YAML::ParserException(before, "unexpected character: no value begins with it");
    }
    before = counter.document();
  }
}

absl::Status ErrorAt(const std::string& name, const YAML::Exception& e, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ":", e.mark.line + 1, ":", e.mark.column + 1, ": ", what, e.msg));
}

}  // namespace

absl::Status CheckYaml(const std::string& text, const std::string& name) {
  try {
    ParseAll(text);
  } catch (const LimitExceeded& e) {
    return ErrorAt(name, e, "");
  } catch (const YAML::Exception& e) {
    return ErrorAt(name, e, "malformed YAML: ");
  }
  return absl::OkStatus();
}

}  // namespace mccs
