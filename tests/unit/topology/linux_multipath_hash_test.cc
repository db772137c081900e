#include "topology/linux_multipath_hash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace linux_multipath_hash_test {

TEST(FiveTuple, AddressesAreNumbers) {
  EXPECT_EQ(ParseIpv4("10.0.0.1"), 0x0a000001u);
  EXPECT_EQ(ParseIpv4("255.255.255.255"), 0xffffffffu);
  for (const char* text : {"", "10.0.0", "10.0.0.256", "fd00::1", "10.0.0.1 "})
    EXPECT_FALSE(ParseIpv4(text).has_value()) << text;
}

TEST(LinuxMultipathHash, IgnoresUnselectedFields) {
  const FiveTuple flow = {.source_address = 1,
                          .destination_address = 2,
                          .protocol = kProtocolUdp,
                          .source_port = 3,
                          .destination_port = 4};
  FiveTuple other = flow;
  other.destination_port = 5;
  other.protocol = kProtocolTcp;
  constexpr uint32_t kSome = kHashSourceAddress | kHashDestinationAddress | kHashSourcePort;
  EXPECT_EQ(LinuxMultipathHash(flow, kSome, 7), LinuxMultipathHash(other, kSome, 7));
  EXPECT_NE(LinuxMultipathHash(flow, kHashAllFields, 7),
            LinuxMultipathHash(other, kHashAllFields, 7));
  EXPECT_NE(LinuxMultipathHash(flow, kSome, 7), LinuxMultipathHash(flow, kSome, 8));
}

TEST(LinuxMultipathHash, NextHopsShareTheHashesEvenly) {
  EXPECT_EQ(LinuxNextHop(0, 1), 0u);
  EXPECT_EQ(LinuxNextHop(0x7fffffff, 1), 0u);
  EXPECT_EQ(LinuxNextHop(0x3fffffff, 2), 0u);
  EXPECT_EQ(LinuxNextHop(0x40000000, 2), 1u);
  EXPECT_EQ(LinuxNextHop(715'827'882, 3), 0u);  // 2³¹ / 3 = 715827882.67
  EXPECT_EQ(LinuxNextHop(715'827'883, 3), 1u);
  EXPECT_EQ(LinuxNextHop(0x7fffffff, 3), 2u);
}

// A router in a temporary network namespace.
struct Router {
  size_t next_hops;
  uint32_t seed;
  uint32_t fields;
};

std::string Dotted(uint32_t address) {
  return absl::StrCat(address >> 24, ".", address >> 16 & 255, ".", address >> 8 & 255, ".",
                      address & 255);
}

// Shell commands that set the router up and query the route of each of `flows`: each answer names a
// device.
std::string Script(const Router& router, const std::vector<FiveTuple>& flows) {
  std::string hops, script =
                        "set -e\ncd /proc/sys/net/ipv4\n"
                        "echo 0 > conf/all/rp_filter; echo 0 > conf/default/rp_filter\n"
                        "echo 1 > ip_forward; echo 3 > fib_multipath_hash_policy\n";
  absl::StrAppend(&script, "echo ", router.fields, " > fib_multipath_hash_fields; echo ",
                  router.seed, " > fib_multipath_hash_seed\n");
  const auto device = [&](const std::string& name, const std::string& address) {
    absl::StrAppend(&script, "ip link add ", name, " type veth peer name ", name, "p\n",
                    "ip addr add ", address, "/24 dev ", name, "\nip link set ", name,
                    " up\nip link set ", name, "p up\n");
  };
  device("into", "10.200.0.1");
  for (size_t i = 0; i < router.next_hops; ++i) {
    device(absl::StrCat("out", i), absl::StrCat("10.201.", i, ".1"));
    absl::StrAppend(&hops, " nexthop via 10.201.", i, ".2");
  }
  absl::StrAppend(&script, "ip route add 10.8.0.0/16 via 10.200.0.2\n", "ip route add 10.9.0.0/16",
                  hops, "\nip -oneline -batch - <<END\n");
  for (const FiveTuple& flow : flows) {
    absl::StrAppend(&script, "route get ", Dotted(flow.destination_address), " from ",
                    Dotted(flow.source_address), " iif into ipproto ",
                    flow.protocol == kProtocolTcp ? "tcp" : "udp", " sport ", flow.source_port,
                    " dport ", flow.destination_port, "\n");
  }
  return script + "END\n";
}

// The kernel's choices; nothing if it cannot be queried, with the reason in `why`.
std::optional<std::vector<size_t>> AskKernel(const Router& router,
                                             const std::vector<FiveTuple>& flows,
                                             std::string* why) {
  const std::string path = absl::StrCat(testing::TempDir(), "/router-", getpid(), ".sh");
  std::ofstream(path) << Script(router, flows);
  const std::string unshare =
      geteuid() == 0 ? "unshare --net" : "unshare --user --map-root-user --net";
  FILE* shell = popen(absl::StrCat(unshare, " sh ", path, " 2>&1").c_str(), "r");
  std::vector<size_t> hops;
  std::string printed;
  char line[512];
  while (shell != nullptr && std::fgets(line, sizeof(line), shell) != nullptr) {
    printed = line;
    const size_t at = printed.find(" dev out");
    if (at != std::string::npos) hops.push_back(std::stoul(printed.substr(at + 8)));
  }
  const int status = shell == nullptr ? -1 : pclose(shell);
  std::remove(path.c_str());
  if (status == 0) return hops;
  *why = absl::StrCat("cannot query the kernel's routes: ", printed);
  return std::nullopt;
}

TEST(LinuxMultipathHash, EqualsTheRunningKernels) {
  constexpr unsigned kSeed = 20242;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  constexpr uint32_t kSomeFields = kHashSourceAddress | kHashSourcePort;
  for (const Router& router :
       {Router{2, 1, kHashAllFields}, Router{3, 20241122, kHashAllFields},
        Router{16, 0xffffffff, kHashAllFields}, Router{5, 77, kSomeFields}}) {
    SCOPED_TRACE(testing::Message() << router.next_hops << " next hops, hash seed " << router.seed);
    std::vector<FiveTuple> flows;
    for (int i = 0; i < 300; ++i) {
      const auto port = [&] { return static_cast<uint16_t>(1 + random() % 65'535); };
      flows.push_back({.source_address = 0x0a080000 + static_cast<uint32_t>(random() % 65'536),
                       .destination_address = 0x0a090000 + static_cast<uint32_t>(random() % 65'536),
                       .protocol = random() % 2 == 0 ? kProtocolTcp : kProtocolUdp,
                       .source_port = port(),
                       .destination_port = port()});
    }
    std::string why;
    const auto answers = AskKernel(router, flows, &why);
    if (!answers) GTEST_SKIP() << why;
    ASSERT_EQ(answers->size(), flows.size());
    for (size_t i = 0; i < flows.size(); ++i) {
      const uint32_t hash = LinuxMultipathHash(flows[i], router.fields, router.seed);
      ASSERT_EQ(LinuxNextHop(hash, router.next_hops), (*answers)[i]) << "flow " << i;
    }
  }
}

// Test vectors of the paper, appendix A, and of its authors: key 00 01 … 0f, data 00 01 … .
TEST(SipHash, MatchesTheAuthorsTestVectors) {
  constexpr std::array<uint64_t, 2> kKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::vector<std::byte> data;
  for (int i = 0; i < 15; ++i) data.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(SipHash24(kKey, {}), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(SipHash24(kKey, std::span(data).first(1)), 0x74f839c593dc67fdu);
  EXPECT_EQ(SipHash24(kKey, std::span(data).first(8)), 0x93f5f5799a932462u);
  EXPECT_EQ(SipHash24(kKey, data), 0xa129ca6149be45e5u);
}

}  // namespace linux_multipath_hash_test
}  // namespace mccs
