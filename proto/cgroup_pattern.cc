#include "proto/cgroup_pattern.h"

#include <algorithm>
#include <cstdint>
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

// Whether a path may begin and end as both patterns do without their wildcards.
bool HaveCommonEnds(std::string_view one, std::string_view other) {
  const size_t a = one.find_first_of("*{"), b = other.find_first_of("*{");
  const size_t first = std::min({a, b, one.size(), other.size()});
  if (one.substr(0, first) != other.substr(0, first)) return false;
  const auto after_last = [](std::string_view text) {
    const size_t last = text.find_last_of("*}");
    return last == text.npos ? text.size() : text.size() - last - 1;
  };
  const size_t last = std::min(after_last(one), after_last(other));
  return one.substr(one.size() - last) == other.substr(other.size() - last);
}

// Follows both patterns at once. A place is a step of each, as one number; each is visited once.
class CommonPath {
 public:
  CommonPath(std::vector<Step> a, std::vector<Step> b)
      : a_(std::move(a)), b_(std::move(b)), reached_((a_.size() + 1) * (b_.size() + 1)) {}

  std::optional<std::string> Find(size_t* compared) {
    const size_t end = reached_.size() - 1;
    Reach(0, 0, 0, 0);
    size_t visited = 0;
    for (; !next_.empty() && !reached_[end].yes; ++visited) Visit();
    if (compared != nullptr) *compared += visited;
    return reached_[end].yes ? std::optional(PathTo(end)) : std::nullopt;
  }

 private:
  struct Reached {
    uint32_t from = 0;  // the place before
    char by = 0;        // the character between the two; 0: none
    bool yes = false;
  };

  size_t PlaceOf(size_t i, size_t j) const { return i * (b_.size() + 1) + j; }

  void Reach(size_t i, size_t j, size_t from, char by) {
    Reached& place = reached_[PlaceOf(i, j)];
    if (place.yes) return;
    place = {.from = static_cast<uint32_t>(from), .by = by, .yes = true};
    next_.push_back(static_cast<uint32_t>(PlaceOf(i, j)));
  }

  void Visit() {
    const size_t place = next_.back();
    next_.pop_back();
    const size_t i = place / (b_.size() + 1), j = place % (b_.size() + 1);
    if (i < a_.size() && a_[i].repeats) Reach(i + 1, j, place, 0);
    if (j < b_.size() && b_[j].repeats) Reach(i, j + 1, place, 0);
    if (i == a_.size() || j == b_.size()) return;
    if (const std::optional<char> c = CommonCharacter(a_[i], b_[j]))
      Reach(a_[i].repeats ? i : i + 1, b_[j].repeats ? j : j + 1, place, *c);
  }

  std::string PathTo(size_t place) const {
    std::string path;
    for (; place != 0; place = reached_[place].from) {
      if (reached_[place].by != 0) path.push_back(reached_[place].by);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  const std::vector<Step> a_, b_;
  std::vector<Reached> reached_;
  std::vector<uint32_t> next_;  // reached and not visited
};

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

std::optional<std::string> CommonCgroup(std::string_view one, std::string_view other,
                                        size_t* compared) {
  one = WithoutLastSlash(one);
  other = WithoutLastSlash(other);
  // Most pairs differ before the first wildcard or after the last one.
  if (!HaveCommonEnds(one, other)) return std::nullopt;
  if (!HasWildcards(one) && !HasWildcards(other)) {
    return one == other ? std::optional(std::string(one)) : std::nullopt;
  }
  return CommonPath(StepsOf(one), StepsOf(other)).Find(compared);
}

}  // namespace mccs
