// The transport contract over a real RDMA device: both ends on its one port. Skips without one. In
// scripts/rdma-test it runs on a device that the Linux kernel emulates (rdma_rxe).
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/reactor.h"
#include "service/device/mapping_threads.h"
#include "service/transport/rdma/ib_verbs.h"
#include "service/transport/rdma/rdma_transport.h"
#include "tests/contract/transport_acknowledgement_contract.h"
#include "tests/contract/transport_contract.h"
#include "tests/contract/transport_gate_contract.h"
#include "tests/contract/transport_places_contract.h"
#include "tests/contract/transport_sharing_contract.h"
#include "tests/contract/transport_slotless_contract.h"
#include "tests/contract/transport_stream_contract.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_streams.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/transport/rdma/rdma_host.h"

namespace mccs {
namespace rdma_device_test {

// Memory that the tests send from and receive into, instead of the process's whole address space.
std::span<std::byte> heap;

// Makes malloc use only the heap proper, and that as large as it will get, so that it can be
// registered before the tests.
void PrepareHeap() {
  constexpr size_t kHeapBytes = size_t{192} << 20;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  void* const all = std::malloc(kHeapBytes);
  MCCS_CHECK(all != nullptr);
  std::memset(all, 0, kHeapBytes);
  std::free(all);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (line.find("[heap]") == std::string::npos) continue;
    MCCS_CHECK(std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2);
    heap = {reinterpret_cast<std::byte*>(begin), end - begin};  // NOLINT
  }
  MCCS_CHECK(heap.size() >= kHeapBytes);
}

class HeapTable final : public MemoryTable {
 public:
  using MemoryTable::MemoryTable;
  AddressRange MemoryOf(const Region& region) const override {
    if (&region != &ProcessMemory::Get()) return MemoryTable::MemoryOf(region);
    return {reinterpret_cast<uintptr_t>(heap.data()), heap.size()};
  }
};

class DeviceWorld final : public TransportWorld {
 public:
  explicit DeviceWorld(uint64_t seed) : network_(clock_, seed), random_(seed) {
    const absl::StatusOr<std::vector<IbPortInfo>> ports = ListIbPorts();
    MCCS_CHECK(ports.ok() && !ports->empty() && !ports->back().gids.empty());
    const IbPort port{.device = ports->back().device,
                      .port = ports->back().port,
                      .gid_index = ports->back().gids.back().index};
    const auto open = [&] {
      absl::StatusOr<std::unique_ptr<VerbsNic>> nic = OpenIbNic(
          port, *reactor_,
          {.receive_entries = 1024, .completions = 4096, .timeout = kTimeout, .retries = 3});
      if (!nic.ok()) std::fprintf(stderr, "%s\n", nic.status().ToString().c_str());
      MCCS_CHECK(nic.ok());
      return *std::move(nic);
    };
    sender_ = std::make_unique<Host>(kSender, open(), open(), random_);
    receiver_ = std::make_unique<Host>(kReceiver, open(), open(), random_);
    absl::StatusOr<std::unique_ptr<Listener>> listener = network_.HostNetwork(kReceiver).Listen({});
    MCCS_CHECK(listener.ok());
    listener_ = *std::move(listener);
  }

  Transport& transport() override { return receiver_->host.transport; }
  Transport& sender() override { return sender_->host.transport; }

  Ends Connect() override {
    StreamEnds ends = OpenStream(network_.HostNetwork(kSender), *listener_, [this] { Advance(); });
    return {.sender = std::move(ends.from), .receiver = std::move(ends.to)};
  }

  void Advance() override {
    network_.AdvanceTo(network_.NextEventTime().value_or(clock_.Now()));
    reactor_->Wait(0);
    sched_yield();  // to the kernel's threads that move the packets
  }

  bool BreakShared(const SharedQueueKey& queues) override {
    sender_->host.pairs().Break(queues, absl::UnavailableError("broken by the test"));
    return true;
  }

 private:
  static constexpr const char* kSender = "10.0.0.1";
  static constexpr const char* kReceiver = "10.0.0.2";
  static constexpr const char* kOtherNic = "10.0.1.2";  // of a host, unused by its lanes
  static constexpr uint8_t kTimeout = 12;               // 17 ms

  // LIFETIME: the NICs outlive the host.
  struct Host {
    Host(const char* address, std::unique_ptr<VerbsNic> own_nic,
         std::unique_ptr<VerbsNic> other_nic, Random& random)
        : nic(std::move(own_nic)),
          other(std::move(other_nic)),
          host({{.address = {address}, .verbs = nic.get()},
                {.address = {kOtherNic}, .verbs = other.get()}},
               random, clock, RegistrationLimits{}, std::make_unique<MappingThreads>([] {})) {}

    std::unique_ptr<VerbsNic> nic;
    std::unique_ptr<VerbsNic> other;
    SystemClock clock;
    RdmaHost<HeapTable> host;
  };

  std::unique_ptr<Reactor> reactor_ = *Reactor::Create();
  SimClock clock_;
  SimNetwork network_;  // for the lanes' streams
  SeededRandom random_;
  std::unique_ptr<Host> sender_;
  std::unique_ptr<Host> receiver_;
  std::unique_ptr<Listener> listener_;
};

const auto kWorlds = testing::Values(TransportWorldMaker{
    "Device", [](uint64_t seed) { return std::make_unique<DeviceWorld>(seed); }});
std::string NameOf(const testing::TestParamInfo<TransportWorldMaker>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Rdma, TransportContract, kWorlds, NameOf);
INSTANTIATE_TEST_SUITE_P(Rdma, SharedTransport, kWorlds, NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StreamWakes);

}  // namespace rdma_device_test
}  // namespace mccs

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto ports = mccs::ListIbPorts();
  if (!ports.ok() || ports->empty()) {
    std::printf("skipped: no RDMA device: %s\n",
                ports.ok() ? "none is there" : ports.status().ToString().c_str());
    return 77;
  }
  mccs::rdma_device_test::PrepareHeap();
  return RUN_ALL_TESTS();
}
