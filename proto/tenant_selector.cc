#include "proto/tenant_selector.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "proto/cgroup_pattern.h"

namespace mccs {
namespace {

constexpr std::string_view kUserPrefix = "uid ";

constexpr uint64_t kUnclaimed = 1;
constexpr uint64_t kByUser = 2;
constexpr uint64_t kByCgroup = 3;  // and higher, for longer paths
constexpr uint64_t kBySocket = std::numeric_limits<uint64_t>::max();

struct CgroupChoice {
  uint64_t precedence = 0;  // 0: no match
  std::vector<std::string> captures = {};
};

CgroupChoice BestCgroup(const TenantSelector& selector, const ProcessOrigin& origin) {
  CgroupChoice best;
  for (const std::string& pattern : selector.cgroups) {
    std::optional<CgroupMatch> match = MatchCgroup(pattern, origin.cgroup);
    if (!match.has_value()) continue;
    const uint64_t precedence = kByCgroup + 2 * match->bytes + (HasWildcards(pattern) ? 0 : 1);
    if (precedence > best.precedence) best = {precedence, std::move(match->captures)};
  }
  return best;
}

bool IsBySocket(const TenantSelector& selector, const ProcessOrigin& origin) {
  if (IsUserTenantName(origin.tenant_name)) return false;  // never the name of a socket
  const auto& sockets = selector.sockets;
  return std::find(sockets.begin(), sockets.end(), origin.tenant_name) != sockets.end() ||
         (!selector.declared.empty() && selector.declared == origin.tenant_name);
}

// Room for the daemon's directory in an address of 107 bytes.
constexpr size_t kLongestSocketPath = 64;

bool IsPathCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '/';
}

}  // namespace

std::string UserTenantName(uint32_t uid) { return std::string(kUserPrefix) + std::to_string(uid); }

bool IsUserTenantName(const std::string& tenant_name) {
  return tenant_name.starts_with(kUserPrefix);
}

std::string WhyNotSocketPath(const std::string& path) {
  if (path.empty() || path.size() > kLongestSocketPath)
    return "expected 1 to " + std::to_string(kLongestSocketPath) + " characters";
  if (path.front() == '/')
    return "expected a path relative to `socket_dir` of mccsd's configuration, without the first "
           "'/'";
  if (!std::all_of(path.begin(), path.end(), IsPathCharacter))
    return "expected letters, digits, '.', '_', '-' and '/'";
  const std::string parts = "/" + path + "/";
  for (const char* part : {"//", "/./", "/../"}) {
    if (parts.find(part) != parts.npos)
      return "expected a path within `socket_dir`, without empty parts, '.' and '..'";
  }
  return "";
}

uint64_t MatchPrecedence(const TenantSelector& selector, const ProcessOrigin& origin) {
  if (IsBySocket(selector, origin)) return kBySocket;
  if (const uint64_t by_cgroup = BestCgroup(selector, origin).precedence; by_cgroup > 0)
    return by_cgroup;
  for (const uint32_t uid : selector.uids) {
    if (origin.tenant_name == UserTenantName(uid)) return kByUser;
  }
  return selector.unclaimed ? kUnclaimed : 0;
}

std::string CapturesOf(const TenantSelector& selector, const ProcessOrigin& origin) {
  if (IsBySocket(selector, origin)) return "";
  std::string text;
  for (const std::string& capture : BestCgroup(selector, origin).captures)
    text += (text.empty() ? "" : "/") + capture;
  return text;
}

}  // namespace mccs
