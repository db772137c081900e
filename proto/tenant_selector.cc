#include "proto/tenant_selector.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace mccs {
namespace {

constexpr std::string_view kUserPrefix = "uid ";

constexpr uint64_t kByUser = 1;
constexpr uint64_t kByCgroup = 2;  // and higher, for longer paths
constexpr uint64_t kBySocket = std::numeric_limits<uint64_t>::max();

// Whether `path` is `group` or a descendant: "/a" contains "/a/b", but not "/ab".
bool IsWithin(std::string_view path, std::string_view group) {
  while (group.size() > 1 && group.ends_with('/')) group.remove_suffix(1);
  if (group == "/") return path.starts_with('/');
  return path.starts_with(group) && (path.size() == group.size() || path[group.size()] == '/');
}

// Room for the daemon's directory in an address of 107 bytes.
constexpr size_t kLongestSocketPath = 64;

bool IsPathCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '/';
}

}  // namespace

std::string UserTenantName(uint32_t uid) { return std::string(kUserPrefix) + std::to_string(uid); }

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
  const auto& sockets = selector.sockets;
  const bool by_socket =
      std::find(sockets.begin(), sockets.end(), origin.tenant_name) != sockets.end() ||
      (!selector.declared.empty() && selector.declared == origin.tenant_name);
  // A name like "uid 1000" is never that of a socket.
  const bool is_user = origin.tenant_name.starts_with(kUserPrefix);
  if (by_socket && !is_user) return kBySocket;
  uint64_t precedence = 0;
  for (const uint32_t uid : selector.uids) {
    if (origin.tenant_name == UserTenantName(uid)) precedence = kByUser;
  }
  for (const std::string& group : selector.cgroups) {
    if (!group.empty() && IsWithin(origin.cgroup, group))
      precedence = std::max(precedence, kByCgroup + group.size());
  }
  return precedence;
}

}  // namespace mccs
