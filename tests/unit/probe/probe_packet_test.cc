#include "service/probe/probe_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace mccs {
namespace probe_packet_test {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kSwitch = 0x0aff0003;
constexpr uint32_t kToken = 0xcafe1234;

FiveTuple Flow(uint8_t protocol) {
  return {.source_address = 0x0a000001,
          .destination_address = 0x0a000101,
          .protocol = protocol,
          .source_port = 61234,
          .destination_port = 7400};
}

uint16_t Get16(const Bytes& bytes, size_t at) {
  return static_cast<uint16_t>(std::to_integer<int>(bytes[at]) << 8 |
                               std::to_integer<int>(bytes[at + 1]));
}

void Put16(Bytes* bytes, size_t at, uint16_t value) {
  (*bytes)[at] = std::byte(value >> 8);
  (*bytes)[at + 1] = std::byte(value & 0xff);
}

// The RFC 1071 checksum of the bytes after `sum`; 0: the included checksum is valid.
uint16_t Sum(const Bytes& bytes, size_t from, uint32_t sum = 0) {
  for (size_t i = from; i < bytes.size(); i += 2) {
    sum += static_cast<uint32_t>(std::to_integer<int>(bytes[i]) << 8);
    if (i + 1 < bytes.size()) sum += static_cast<uint32_t>(std::to_integer<int>(bytes[i + 1]));
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

// A switch's answer to `packet`: its first bytes, after headers of the switch.
Bytes AnswerTo(const Bytes& packet, size_t quoted = 28, uint8_t type = 11, uint8_t code = 0) {
  Bytes answer(28 + quoted);
  answer[0] = std::byte{0x45};
  Put16(&answer, 2, static_cast<uint16_t>(28 + quoted));
  answer[8] = std::byte{63};
  answer[9] = std::byte{1};
  Put16(&answer, 12, kSwitch >> 16);
  Put16(&answer, 14, kSwitch & 0xffff);
  Put16(&answer, 16, Get16(packet, 12));
  Put16(&answer, 18, Get16(packet, 14));
  answer[20] = std::byte{type};
  answer[21] = std::byte{code};
  std::copy_n(packet.begin(), quoted, answer.begin() + 28);
  Put16(&answer, 22, Sum(answer, 20));
  return answer;
}

Bytes Probe(uint8_t protocol, uint8_t ttl = 3) {
  return BuildProbe({.flow = Flow(protocol), .ttl = ttl, .token = kToken});
}

TEST(ProbePacket, LooksToASwitchLikeTheFlow) {
  for (const uint8_t protocol : {kProtocolTcp, kProtocolUdp}) {
    const Bytes packet = Probe(protocol);
    ASSERT_EQ(packet.size(), protocol == kProtocolTcp ? 40u : 28u);
    EXPECT_EQ(Get16(packet, 2), packet.size());
    EXPECT_EQ(std::to_integer<int>(packet[8]), 3);
    EXPECT_EQ(std::to_integer<int>(packet[9]), protocol);
    EXPECT_EQ(Get16(packet, 12), 0x0a00);
    EXPECT_EQ(Get16(packet, 14), 0x0001);
    EXPECT_EQ(Get16(packet, 18), 0x0101);
    EXPECT_EQ(Get16(packet, 20), 61234);
    EXPECT_EQ(Get16(packet, 22), 7400);
  }
}

TEST(ProbePacket, PeersDropIt) {
  const Bytes packet = Probe(kProtocolTcp);
  const uint32_t pseudo = 0x0a00 + 0x0001 + 0x0a00 + 0x0101 + 6 + 20;
  EXPECT_NE(Sum(packet, 20, pseudo), 0);
  for (uint32_t token = 0x10001; token < 0x10001 + 20'000; ++token) {
    const Bytes each = BuildProbe({.flow = Flow(kProtocolTcp), .ttl = 1, .token = token});
    ASSERT_NE(Sum(each, 20, pseudo), 0) << token;
  }
}

TEST(ProbeAnswer, IdentifiesTheFlowAndThePacket) {
  for (const uint8_t protocol : {kProtocolTcp, kProtocolUdp}) {
    for (const size_t quoted : {28u, protocol == kProtocolTcp ? 40u : 28u}) {
      const auto answer = ParseProbeAnswer(AnswerTo(Probe(protocol), quoted));
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->from, kSwitch);
      EXPECT_EQ(answer->flow, Flow(protocol));
      EXPECT_EQ(answer->token, kToken);
    }
  }
}

TEST(ProbeAnswer, HeadersMayHaveOptions) {
  Bytes packet = Probe(kProtocolTcp);
  packet[0] = std::byte{0x47};  // options that a switch may have added
  packet.insert(packet.begin() + 20, 8, std::byte{1});
  Bytes answer = AnswerTo(packet, 36);
  const auto inner = ParseProbeAnswer(answer);
  ASSERT_TRUE(inner.has_value());
  EXPECT_EQ(inner->token, kToken);
  answer[0] = std::byte{0x46};
  answer.insert(answer.begin() + 20, 4, std::byte{1});
  Put16(&answer, 2, static_cast<uint16_t>(answer.size()));
  const auto both = ParseProbeAnswer(answer);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->flow, Flow(kProtocolTcp));
}

TEST(ProbeAnswer, IgnoresOtherMessages) {
  const Bytes packet = Probe(kProtocolTcp);
  for (int type = 0; type < 256; ++type) {
    const auto answer = ParseProbeAnswer(AnswerTo(packet, 28, static_cast<uint8_t>(type)));
    EXPECT_EQ(answer.has_value(), type == 11) << type;
  }
  EXPECT_FALSE(ParseProbeAnswer(AnswerTo(packet, 28, 11, 1)));  // a later fragment
  EXPECT_FALSE(ParseProbeAnswer(packet));
  Bytes quoting_icmp = packet;
  quoting_icmp[9] = std::byte{1};
  EXPECT_FALSE(ParseProbeAnswer(AnswerTo(quoting_icmp)));
  Bytes fragment = packet;
  Put16(&fragment, 6, 5);  // a fragment offset: no ports follow
  EXPECT_FALSE(ParseProbeAnswer(AnswerTo(fragment)));
  Bytes six = AnswerTo(packet);
  six[0] = std::byte{0x65};
  EXPECT_FALSE(ParseProbeAnswer(six));
}

TEST(ProbeAnswer, IgnoresTruncatedAndDamagedMessages) {
  const Bytes whole = AnswerTo(Probe(kProtocolTcp), 40);
  for (size_t size = 0; size < whole.size(); ++size) {
    Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ParseProbeAnswer(cut)) << size;
    if (size < 48) continue;
    // The switch declares the short length in the quoted header itself.
    EXPECT_EQ(ParseProbeAnswer(AnswerTo(Probe(kProtocolTcp), size - 28)).has_value(), size >= 56);
  }
  for (size_t bit = 20 * 8; bit < whole.size() * 8; ++bit) {
    Bytes damaged = whole;
    damaged[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_FALSE(ParseProbeAnswer(damaged)) << bit;
  }
}

// Accepted bytes quote a TCP or UDP header, and all fields come from within the packet.
TEST(ProbeAnswer, AcceptsOfRandomBytesOnlyWholeAnswers) {
  std::mt19937 random(7);
  int accepted = 0;
  const Bytes whole = AnswerTo(Probe(kProtocolUdp));
  for (int i = 0; i < 200'000; ++i) {
    Bytes bytes = i % 2 == 0 ? Bytes(random() % 80) : whole;
    if (i % 2 == 0) {
      for (std::byte& each : bytes) each = std::byte(random() & 0xff);
    } else {
      for (int n = 0; n < 4; ++n) bytes[random() % bytes.size()] = std::byte(random() & 0xff);
      bytes.resize(random() % (bytes.size() + 1));
      // As an attacker would do.
      if (bytes.size() >= 24) {
        Put16(&bytes, 2, static_cast<uint16_t>(bytes.size()));
        Put16(&bytes, 22, 0);
        Put16(&bytes, 22, Sum(bytes, 20));
      }
    }
    const std::optional<ProbeAnswer> answer = ParseProbeAnswer(bytes);
    if (!answer.has_value()) continue;
    ++accepted;
    ASSERT_GE(bytes.size(), whole.size()) << "packet " << i;
    ASSERT_EQ(bytes[9], std::byte{1}) << "packet " << i << " is not ICMP";
    ASSERT_TRUE(answer->flow.protocol == kProtocolTcp || answer->flow.protocol == kProtocolUdp)
        << "packet " << i;
    ASSERT_EQ(answer->from, uint32_t{Get16(bytes, 12)} << 16 | Get16(bytes, 14)) << "packet " << i;
  }
  EXPECT_GT(accepted, 0) << "no packet passed the checksum; the test shows nothing";
  EXPECT_LT(accepted, 100'000) << "random bytes are not answers";
}

}  // namespace probe_packet_test
}  // namespace mccs
