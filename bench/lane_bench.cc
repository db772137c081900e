// Compares lanes with bare sockets: two processes exchange the same bytes in both directions over
// the same number of loopback connections, alternately through lanes and with sendmsg and recvmsg.
// Then the same for a ping-pong of eight bytes. Prints one JSON line per figure.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "bench/exchange_side.h"
#include "service/transport/stream_lane.h"

namespace mccs {
namespace {

constexpr int kPings = 20'000;

struct Load {
  size_t bytes = 512 * kMiB;  // per direction and round
  int rounds = 5;
  int connections = 1;  // per direction
  uint32_t slice_bytes = 256 * kKiB;
  uint32_t slots = 8;
  int buffer_bytes = 0;  // of sockets; 0: the kernel's choice
};

// Memory of this program as a region.
class VectorRegion final : public Region {
 public:
  explicit VectorRegion(std::vector<std::byte>& bytes)
      : Region(RegionKind::kTenant, bytes.data(), bytes.size()) {}
};

size_t SliceOffset(uint64_t slice, int lane, const Load& load) {
  return ((slice * load.connections + lane) * load.slice_bytes) % kBufferBytes;
}

void ExchangeLanes(Side& side, const Load& load) {
  StreamTransport transport;
  const LaneShape shape{.slots = load.slots, .slot_bytes = load.slice_bytes};
  const uint64_t slices = load.bytes / load.connections / load.slice_bytes;
  const VectorRegion source(side.source), target(side.target);
  std::vector<std::vector<std::byte>> slots;
  std::vector<std::unique_ptr<VectorRegion>> slot_regions;
  std::vector<std::unique_ptr<SendLane>> send;
  std::vector<std::unique_ptr<RecvLane>> recv;
  for (size_t i = 0; i < side.out.size(); ++i) {
    slots.emplace_back(size_t{shape.slots} * shape.slot_bytes);
    send.push_back(transport.MakeSendLane({}, shape));
    slot_regions.push_back(std::make_unique<VectorRegion>(slots[i]));
    recv.push_back(transport.MakeRecvLane({}, shape, WholeOf(*slot_regions[i])));
    send[i]->Attach(std::move(side.out[i]));
    recv[i]->Attach(std::move(side.in[i]));
  }
  std::vector<uint64_t> expected(send.size()), landed(send.size());
  int idle = 0;
  for (;;) {
    bool moved = false, done = true;
    for (size_t i = 0; i < send.size(); ++i) {
      const int lane = static_cast<int>(i);
      while (expected[i] < slices && expected[i] < landed[i] + shape.slots) {
        const RegionSpan to{&target, SliceOffset(expected[i], lane, load), load.slice_bytes};
        (void)recv[i]->Expect(expected[i]++, to, {});
      }
      while (send[i]->next() < slices) {
        const RegionSpan from{&source, SliceOffset(send[i]->next(), lane, load), load.slice_bytes};
        if (!send[i]->Post(from, {})->has_value()) break;
      }
      moved = send[i]->Poll() || moved;
      moved = recv[i]->Poll() || moved;
      if (!moved) recv[i]->Acknowledge();
      while (landed[i] < slices && recv[i]->Landed(landed[i]) != Landing::kNotYet) {
        recv[i]->Release(landed[i]++);
      }
      done = done && landed[i] == slices && send[i]->acknowledged() == slices;
    }
    if (done) break;
    if (!moved) side.Idle(idle);
  }
  // The other side may still wait for this side's last acknowledgement.
  for (auto& lane : recv) lane->Poll();
  side.Barrier();
}

void PingBare(Side& side) {
  uint64_t word = 0;
  const iovec piece{.iov_base = &word, .iov_len = sizeof(word)};
  int idle = 0;
  for (int i = 0; i < kPings; ++i) {
    if (side.first()) MCCS_CHECK(*side.out[0]->Write({&piece, 1}) == sizeof(word));
    while (!side.in[0]->readable() || *side.in[0]->Read({&piece, 1}) == 0) side.Idle(idle);
    if (!side.first()) MCCS_CHECK(*side.out[0]->Write({&piece, 1}) == sizeof(word));
  }
}

void PingLanes(Side& side) {
  StreamTransport transport;
  const LaneShape shape{.slots = 8, .slot_bytes = 64 * kKiB};
  std::vector<std::byte> slots(size_t{shape.slots} * shape.slot_bytes);
  const VectorRegion slots_region(slots);
  std::unique_ptr<SendLane> send = transport.MakeSendLane({}, shape);
  std::unique_ptr<RecvLane> recv = transport.MakeRecvLane({}, shape, WholeOf(slots_region));
  send->Attach(std::move(side.out[0]));
  recv->Attach(std::move(side.in[0]));
  std::vector<std::byte> word(sizeof(uint64_t));
  const VectorRegion word_region(word);
  const RegionSpan from = WholeOf(word_region);
  auto move = [&, idle = 0]() mutable {
    const bool sent = send->Poll();
    if (!recv->Poll() && !sent) side.Idle(idle);
  };
  const auto acknowledge_and_move = [&] {
    recv->Acknowledge();
    move();
  };
  auto ping = [&] {
    while (!send->Post(from, {})->has_value()) move();
    send->Poll();
  };
  for (SliceNumber n = 0; n < kPings; ++n) {
    if (side.first()) ping();
    while (recv->Landed(n) == Landing::kNotYet) move();
    recv->Release(n);
    if (!side.first()) ping();
  }
  while (send->acknowledged() < kPings) acknowledge_and_move();
  for (int i = 0; i < 3; ++i) acknowledge_and_move();
  side.Barrier();
}

void Figure(const char* name, const char* how, double value, const char* unit) {
  std::printf(
      "{\"bench\": \"lane\", \"figure\": \"%s\", \"how\": \"%s\", \"value\": %.3f, "
      "\"unit\": \"%s\"}\n",
      name, how, value, unit);
}

void Run(Side& side, const Load& load) {
  std::vector<double> bare[std::size(kBareCalls)], lanes, bare_ping, lane_ping;
  for (int i = 0; i <= load.rounds; ++i) {
    double b[std::size(kBareCalls)];
    for (size_t c = 0; c < std::size(kBareCalls); ++c) {
      b[c] =
          Seconds(side, load.connections, [&] { ExchangeBare(side, load.bytes, kBareCalls[c]); });
    }
    const double l = Seconds(side, load.connections, [&] { ExchangeLanes(side, load); });
    const double bp = Seconds(side, 1, [&] { PingBare(side); });
    const double lp = Seconds(side, 1, [&] { PingLanes(side); });
    if (i == 0) continue;  // warm-up of pages and the kernel's buffers
    for (size_t c = 0; c < std::size(kBareCalls); ++c) {
      bare[c].push_back(static_cast<double>(load.bytes) / b[c] / 1e9);
    }
    lanes.push_back(static_cast<double>(load.bytes) / l / 1e9);
    bare_ping.push_back(bp / kPings / 2 * 1e6);
    lane_ping.push_back(lp / kPings / 2 * 1e6);
  }
  if (!side.first()) return;
  double best = 0;
  for (size_t c = 0; c < std::size(kBareCalls); ++c) {
    const std::string how = "bare, calls of " + FormatBytes(kBareCalls[c]);
    Figure("full duplex, each direction", how.c_str(), Median(bare[c]), "GB/s");
    best = std::max(best, Median(bare[c]));
  }
  Figure("full duplex, each direction", "lanes", Median(lanes), "GB/s");
  Figure("full duplex", "lanes / best bare", Median(lanes) / best, "");
  Figure("8 bytes, one direction", "bare", Median(bare_ping), "us");
  Figure("8 bytes, one direction", "lanes", Median(lane_ping), "us");
}

int Main(int argc, char** argv) {
  CLI::App app("Compares lanes with bare sockets over loopback; prints one JSON line per figure");
  Load load;
  size_t mib = load.bytes / kMiB;
  uint32_t slice_kib = load.slice_bytes / kKiB;
  int buffer_kib = load.buffer_bytes;
  app.add_option("--mib", mib, "MiB of a round, per direction")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", load.rounds, "number of rounds, after one warm-up round")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--connections", load.connections, "number of connections per direction")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--slice-kib", slice_kib)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--socket-kib", buffer_kib,
                 "size of a socket's buffer in KiB; 0: the kernel's default")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--slots", load.slots)->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  load.bytes = mib * kMiB;
  load.slice_bytes = slice_kib * static_cast<uint32_t>(kKiB);
  load.buffer_bytes = buffer_kib * static_cast<int>(kKiB);
  return RunOnTwoSides(load.buffer_bytes, [&](Side& side) { Run(side, load); });
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }
