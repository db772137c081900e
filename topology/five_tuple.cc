#include "topology/five_tuple.h"

#include <arpa/inet.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace mccs {

std::optional<uint32_t> ParseIpv4(std::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::string FormatIpv4(uint32_t address) {
  return absl::StrCat(address >> 24, ".", (address >> 16) & 255, ".", (address >> 8) & 255, ".",
                      address & 255);
}

}  // namespace mccs
