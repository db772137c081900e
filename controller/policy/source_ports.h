// Which source ports the lanes of the cluster hold, and the choice of another one.
#ifndef MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_
#define MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_

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
#include "controller/cluster_view.h"

namespace mccs {

// Source ports of lanes, both ends included. Above Linux's default range of ephemeral ports (32768
// to 60999), so that no other program of the host holds one by chance.
struct PortRange {
  uint16_t first = 61000;
  uint16_t last = 65535;

  bool Contains(uint16_t port) const { return first <= port && port <= last; }
};

class SourcePorts {
 public:
  // A host, for one SourcePorts.
  using HostNumber = StrongInt<struct HostNumberTag, uint32_t>;
  // Two hosts that a lane leads from and to.
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
  // All that `communicator`'s strategy has, channel by channel.
  std::vector<Port> PortsOf(const CommunicatorView& communicator);

  // Takes all of them, or gives them back. REQUIRES of giving back: taken.
  void TakeAll(std::span<const Port> ports);
  void TakeAll(const CommunicatorView& communicator) { TakeAll(PortsOf(communicator)); }
  void GiveBack(std::span<const Port> ports);
  void GiveBack(const CommunicatorView& communicator) { GiveBack(PortsOf(communicator)); }
  void GiveBack(uint16_t port, const Ends& ends) { Count(port, ends, -1); }

  // Whether several lanes have it.
  bool IsShared(uint16_t port, const Ends& ends) const;

  // What is taken and given back from here on is undone by UndoTrial. REQUIRES: no trial yet.
  void BeginTrial();
  void UndoTrial();

  // Takes `port` unless a lane between the same two hosts has it.
  bool TakeBetween(uint16_t port, const Ends& ends);

  // A free port for a lane, and takes it. `search` is given a test for "free", with which it finds
  // a port or nothing: first "no lane has it" (hosts may share one address, as in a lab on one
  // machine; not where hardly any such port is left, for looking takes time), then "none that
  // leaves from this host", then "none between these hosts", which is what makes flows distinct.
  // Nothing: it never found one. It looks within `range`.
  using IsFree = absl::FunctionRef<bool(uint16_t)>;
  std::optional<uint16_t> Choose(const PortRange& range, const Ends& ends,
                                 absl::FunctionRef<std::optional<uint16_t>(IsFree)> search);
  // `now` where none is better, else the first one from a place on that `hash` picks.
  std::optional<uint16_t> Choose(const PortRange& range, uint16_t now, uint64_t hash,
                                 const Ends& ends);

 private:
  using Counts = absl::flat_hash_map<uint64_t, int>;

  HostNumber Number(const std::string& host);
  // Whether enough ports of `range` are left that no lane has.
  bool EnoughFree(const PortRange& range) const;
  void Count(uint16_t port, const Ends& ends, int by);

  absl::flat_hash_map<std::string, HostNumber> numbers_;
  // How many lanes have it.
  std::vector<int> anywhere_ = std::vector<int>(1 << 16);  // by port
  // Ports that some lane has, by block of kBlock ports.
  static constexpr uint32_t kBlock = 64;
  std::vector<uint32_t> used_ = std::vector<uint32_t>((1 << 16) / kBlock);
  Counts from_host_;
  Counts between_;
  int shared_ = 0;  // of between_, those that several lanes have
  bool in_trial_ = false;
  std::vector<std::pair<Port, int>> trial_;  // what was counted in it
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_SOURCE_PORTS_H_
