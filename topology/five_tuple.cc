#include "topology/five_tuple.h"

#include <arpa/inet.h>

#include <string>

namespace mccs {

std::optional<uint32_t> ParseIpv4(std::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

}  // namespace mccs
