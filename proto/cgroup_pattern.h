// Patterns of control groups, by which Tenants select processes. Pure.
//
//   /jobs/team-a               this group, and those below it
//   /kubepods*/pod{uid}        * stands for any text, with '/' and also none
//   /slurm/uid_*/job_{job}     {name} stands for text without '/', at least one character
//
// A pattern matches the beginning of a path, up to a '/' or the end: whatever is in the group
// belongs to it. Each * and {name} takes as few characters as possible, so that a process that may
// create groups below its own cannot choose what they stand for. A process outside may create
// groups that match, if * stands for a group of its own (docs/operators/tenants.md).
#ifndef MCCS_PROTO_CGROUP_PATTERN_H_
#define MCCS_PROTO_CGROUP_PATTERN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mccs {

// Of a pattern with * or {name}. They limit the steps of a match, because a process may choose the
// path: some for each character of the path and each * or {name}.
inline constexpr size_t kLongestCgroupPattern = 128;
inline constexpr size_t kMaxCgroupWildcards = 4;

// Why `text` is not a pattern: "expected …"; empty: it is.
std::string WhyNotCgroupPattern(std::string_view text);

// Whether it has * or {name}.
bool HasWildcards(std::string_view pattern);

struct CgroupMatch {
  size_t bytes = 0;                        // of the path
  std::vector<std::string> captures = {};  // what each {name} stands for
};
// Nothing: the path does not match. REQUIRES: WhyNotCgroupPattern accepts `pattern`; for other text
// the result has no meaning.
std::optional<CgroupMatch> MatchCgroup(std::string_view pattern, std::string_view path);

// A path that both patterns match up to its end, if * may stand for any text; nothing: there is
// none, and no path matches both with equal CgroupMatch::bytes. Takes time and memory for each pair
// of a character of `one` and one of `other`, unless their beginnings or ends differ. `compared`:
// if not null, is increased by the number of these pairs.
// REQUIRES: WhyNotCgroupPattern accepts both.
std::optional<std::string> CommonCgroup(std::string_view one, std::string_view other,
                                        size_t* compared = nullptr);

}  // namespace mccs

#endif  // MCCS_PROTO_CGROUP_PATTERN_H_
