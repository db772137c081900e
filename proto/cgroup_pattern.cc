#include "proto/cgroup_pattern.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace mccs {
namespace {

// One step of a pattern: a set of characters, taken once or any number of times.
struct Step {
  enum class Set : uint8_t { kOne, kNoSlash, kAny };
  Set set = Set::kOne;
  char one = 0;
  bool repeats = false;
  std::optional<size_t> capture = {};

  bool Has(char c) const {
    return set == Set::kAny || (set == Set::kNoSlash ? c != '/' : c == one);
  }
};

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// "/a/" is the group "/a".
std::string_view WithoutLastSlash(std::string_view text) {
  while (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
  return text;
}

// REQUIRES: WhyNotCgroupPattern accepts `pattern`.
std::vector<Step> StepsOf(std::string_view pattern) {
  std::vector<Step> steps;
  size_t captures = 0;
  pattern = WithoutLastSlash(pattern);
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '*') {
      steps.push_back({.set = Step::Set::kAny, .repeats = true});
    } else if (pattern[at] == '{') {
      steps.push_back({.set = Step::Set::kNoSlash, .capture = captures});
      steps.push_back({.set = Step::Set::kNoSlash, .repeats = true, .capture = captures});
      ++captures;
      at = std::min(pattern.find('}', at), pattern.size());
    } else {
      steps.push_back({.set = Step::Set::kOne, .one = pattern[at]});
    }
  }
  return steps;
}

// Tries the shortest text for each step first, and no position of a step twice.
class Matcher {
 public:
  Matcher(const std::vector<Step>& steps, std::string_view path)
      : steps_(steps), path_(path), failed_(steps.size() * (path.size() + 1)) {}

  std::optional<CgroupMatch> Match() {
    if (!MatchFrom(0, 0)) return std::nullopt;
    for (std::string& capture : match_.captures) std::reverse(capture.begin(), capture.end());
    return std::move(match_);
  }

 private:
  bool MatchFrom(size_t step, size_t at) {
    if (step == steps_.size()) {
      match_.bytes = at;
      return at == path_.size() || path_[at] == '/';
    }
    const size_t index = step * (path_.size() + 1) + at;
    if (failed_[index]) return false;
    const Step& next = steps_[step];
    if (next.repeats && MatchFrom(step + 1, at)) return true;
    if (at < path_.size() && next.Has(path_[at]) &&
        MatchFrom(next.repeats ? step : step + 1, at + 1)) {
      if (next.capture.has_value()) {
        if (match_.captures.size() <= *next.capture) match_.captures.resize(*next.capture + 1);
        match_.captures[*next.capture] += path_[at];  // from its last character to its first
      }
      return true;
    }
    failed_[index] = true;
    return false;
  }

  const std::vector<Step>& steps_;
  const std::string_view path_;
  std::vector<bool> failed_;
  CgroupMatch match_;
};

// A character that both steps have; nothing: none.
std::optional<char> CommonCharacter(const Step& a, const Step& b) {
  if (a.set == Step::Set::kOne) return b.Has(a.one) ? std::optional(a.one) : std::nullopt;
  if (b.set == Step::Set::kOne) return CommonCharacter(b, a);
  return 'x';
}

}  // namespace

std::string WhyNotCgroupPattern(std::string_view text) {
  const std::string parts = std::string(text) + "/";
  if (!text.starts_with('/') || parts.find("/../") != parts.npos ||
      parts.find("/./") != parts.npos || (text != "/" && parts.find("//") != parts.npos)) {
    return "expected an absolute path without '.' and '..', as shown in /proc/PID/cgroup";
  }
  if (HasWildcards(text) && text.size() > kLongestCgroupPattern) {
    return "expected at most " + std::to_string(kLongestCgroupPattern) +
           " characters, because it has '*' or '{'";
  }
  if (std::count_if(text.begin(), text.end(), [](char c) { return c == '*' || c == '{'; }) >
      static_cast<int64_t>(kMaxCgroupWildcards)) {
    return "expected at most " + std::to_string(kMaxCgroupWildcards) + " of '*' and '{name}'";
  }
  std::set<std::string_view> names;
  for (size_t at = text.find_first_of("{}"); at != text.npos; at = text.find_first_of("{}", at)) {
    const size_t end = text.find_first_of("{}", at + 1);
    const std::string_view name = end == text.npos ? "" : text.substr(at + 1, end - at - 1);
    if (text[at] != '{' || end == text.npos || text[end] != '}' || name.empty() ||
        !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
      return "expected '{name}' with a name of lower-case letters, digits and '_'";
    }
    if (!names.insert(name).second) return "expected each {name} once";
    at = end + 1;
  }
  return "";
}

bool HasWildcards(std::string_view pattern) { return pattern.find_first_of("*{") != pattern.npos; }

std::optional<CgroupMatch> MatchCgroup(std::string_view pattern, std::string_view path) {
  if (pattern == "/") {
    return path.starts_with('/') ? std::optional(CgroupMatch{.bytes = 1}) : std::nullopt;
  }
  pattern = WithoutLastSlash(pattern);
  // Most pairs differ before the first wildcard.
  const std::string_view plain = pattern.substr(0, pattern.find_first_of("*{"));
  if (plain.empty() || !path.starts_with(plain)) return std::nullopt;
  if (plain.size() < pattern.size()) return Matcher(StepsOf(pattern), path).Match();
  const bool ends = path.size() == plain.size() || path[plain.size()] == '/';
  return ends ? std::optional(CgroupMatch{.bytes = plain.size()}) : std::nullopt;
}

// Follows both patterns at once: a place is a step of each.
std::optional<std::string> CommonCgroup(std::string_view one, std::string_view other) {
  const std::vector<Step> a = StepsOf(one), b = StepsOf(other);
  using Place = std::pair<size_t, size_t>;
  std::map<Place, std::string> paths = {{{0, 0}, ""}};  // to each place, a path that leads there
  std::vector<Place> next = {{0, 0}};
  while (!next.empty()) {
    const auto [i, j] = next.back();
    next.pop_back();
    const std::string path = paths[{i, j}];
    if (i == a.size() && j == b.size()) return path;
    const auto visit = [&](size_t to_i, size_t to_j, const std::string& more) {
      if (paths.emplace(Place(to_i, to_j), path + more).second) next.push_back({to_i, to_j});
    };
    if (i < a.size() && a[i].repeats) visit(i + 1, j, "");
    if (j < b.size() && b[j].repeats) visit(i, j + 1, "");
    if (i == a.size() || j == b.size()) continue;
    if (const std::optional<char> c = CommonCharacter(a[i], b[j])) {
      visit(a[i].repeats ? i : i + 1, b[j].repeats ? j : j + 1, std::string(1, *c));
    }
  }
  return std::nullopt;
}

}  // namespace mccs
