// A hostile tenant of the random world: processes on honest daemons, and a peer daemon of its own
// (lying_peer.h) that meets, leads or joins them in one communicator. The processes say one size
// and the rosters another, call with odd roots, peers and ranges, take buffers back amid work, and
// go. Their buffers lie in memory of which each byte that is not theirs must stay as it is, and
// must come to nobody:
//
//   | others' | buffer | others' | buffer | others' …
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_LIAR_H_
#define MCCS_TESTS_SIM_LIAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/lying_peer.h"
#include "tests/sim/random_counts.h"
#include "tests/sim/sim_world.h"

namespace mccs {

// What daemons call its processes.
inline constexpr char kLiarTenant[] = "uid 1666";

class Liar {
 public:
  // Processes on some of `hosts`. `address`: of its own. LIFETIME: `world` and `counts` outlive it,
  // and the world ends before it does.
  Liar(SimWorld& world, const std::vector<int>& hosts, std::string address, uint64_t seed,
       RandomCounts& counts);

  // One of its processes does something.
  void Act();
  // The daemon of a host has ended, and so have the processes on it.
  void Lose(int host);
  // All its processes end, and what it has open.
  void Leave();

  // What it got hold of that is not its own; empty: nothing.
  std::string Wrong() const;
  const std::string& address() const { return address_; }

 private:
  struct Process {
    int host = 0;
    int rank = 0;
    SimTenant* tenant = nullptr;
    SimRank* comm = nullptr;
    std::byte* buffers[2] = {nullptr, nullptr};
    bool alive = true;
    size_t next = 0;  // of calls_
  };
  struct Call {
    OpKind kind = OpKind::kAllReduce;
    uint64_t count = 0;
    int root = 0;
  };

  uint64_t Below(uint64_t limit) { return dice_() % limit; }
  void Count(RandomEvent event) { counts_.Add(event); }
  wire::UniqueId OwnId();
  void Begin(const wire::UniqueId& id);
  void PostNext(Process& process);
  void Control(Process& process);
  wire::BufferRef BufferOf(const Process& process, int which) const;

  SimWorld& world_;
  const std::string address_;
  RandomCounts& counts_;
  Dice dice_;
  std::vector<std::byte> memory_;
  int ranks_ = 0;
  std::vector<Process> processes_;
  std::vector<std::vector<int>> played_;
  std::vector<Call> calls_;
  bool agrees_ = true;        // on its size
  bool meets_here_ = true;    // it is the rendezvous itself
  bool calls_oddly_ = false;  // its processes
  bool controls_ = false;     // they do more than to call
  std::unique_ptr<LyingPeer> peer_;
  bool has_left_ = false;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_LIAR_H_
