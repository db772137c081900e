// Tracks the source ports of all lanes in the cluster, and chooses new ones.
#ifndef MCCS_CONTROLLER_VIEW_SOURCE_PORTS_H_
#define MCCS_CONTROLLER_VIEW_SOURCE_PORTS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "controller/view/cluster_view.h"
#include "topology/topology.h"

namespace mccs {

// Finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): spreads neighbouring inputs over all
// bits. Not std::hash, which may differ between builds.
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Hash of the lane that starts at index `place` of the channel's ring, equal in every build. The
// search for its source port starts there.
constexpr uint64_t LaneHash(CommId id, int channel, int place) {
  return Mix(Mix(Mix(id.value()) + static_cast<uint64_t>(channel) + 1) +
             static_cast<uint64_t>(place) + 1);
}

class SourcePorts {
 public:
  // Number of a host within one SourcePorts.
  using HostNumber = StrongInt<struct HostNumberTag, uint32_t>;
  // The two hosts of a lane.
  struct Ends {
    HostNumber from, to;

    friend auto operator<=>(const Ends&, const Ends&) = default;
  };
  Ends Between(const std::string& from, const std::string& to);

  // The port of a lane.
  struct Port {
    Ends ends;
    uint16_t port = 0;

    friend auto operator<=>(const Port&, const Port&) = default;
  };
  // All ports of `communicator`'s strategy, by channel.
  std::vector<Port> PortsOf(const CommunicatorView& communicator);

  // Take or release ports. REQUIRES for release: taken.
  void TakeAll(std::span<const Port> ports);
  void TakeAll(const CommunicatorView& communicator) { TakeAll(PortsOf(communicator)); }
  void Release(std::span<const Port> ports);
  void Release(uint16_t port, const Ends& ends) { Count(port, ends, -1); }

  // Whether more than one lane has it.
  bool IsShared(uint16_t port, const Ends& ends) const;

  // UndoTrial undoes all takes and releases since BeginTrial. REQUIRES: no trial is active.
  void BeginTrial();
  void UndoTrial();

  // Takes `port`; false: another lane between the same two hosts has it.
  bool TakeBetween(uint16_t port, const Ends& ends);

  // Takes and returns a free port in `range` for a lane. `search` finds a port for which the given
  // test returns true. Tests, in order: no lane has it (skipped if few such ports are left); no
  // lane from this host has it; no lane between these hosts has it. The first supports hosts that
  // share one address, the last keeps flows distinct. Nothing: none was found.
  using IsFree = absl::FunctionRef<bool(uint16_t)>;
  std::optional<uint16_t> Choose(const SourcePortRange& range, const Ends& ends,
                                 absl::FunctionRef<std::optional<uint16_t>(IsFree)> search);
  // `now` if none is better, else the first free one from a start given by `hash`.
  std::optional<uint16_t> Choose(const SourcePortRange& range, uint16_t now, uint64_t hash,
                                 const Ends& ends);

 private:
  using Counts = absl::flat_hash_map<uint64_t, int>;

  HostNumber Number(const std::string& host);
  // Whether enough ports of `range` are free.
  bool EnoughFree(const SourcePortRange& range) const;
  void Count(uint16_t port, const Ends& ends, int by);

  absl::flat_hash_map<std::string, HostNumber> numbers_;
  // Number of lanes with the port.
  std::vector<int> anywhere_ = std::vector<int>(1 << 16);  // by port
  // Number of ports in use, by block of kBlock ports.
  static constexpr uint32_t kBlock = 64;
  std::vector<uint32_t> used_ = std::vector<uint32_t>((1 << 16) / kBlock);
  Counts from_host_;
  Counts between_;
  int shared_ = 0;  // entries of between_ with more than one lane
  bool in_trial_ = false;
  std::vector<std::pair<Port, int>> trial_;  // changes since BeginTrial
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_SOURCE_PORTS_H_
