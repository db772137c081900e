// A hostile tenant of the random world: processes on honest daemons, and a peer daemon of its own
// (hostile_peer.h) that is rendezvous, leader or member of one communicator with them. The
// processes name different sizes than the rosters, call with invalid roots, peers and ranges,
// release buffers in use, and end at any time. Their buffers lie between memory of other tenants,
// of which no byte may change or be read:
//
//   | others' | buffer | others' | buffer | others' …
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_HOSTILE_TENANT_H_
#define MCCS_TESTS_SIM_HOSTILE_TENANT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/hostile_peer.h"
#include "tests/sim/random_counts.h"
#include "tests/sim/sim_world.h"

namespace mccs {

// The name that daemons give its processes.
inline constexpr char kHostileTenantName[] = "uid 1666";

class HostileTenant {
 public:
  // Starts processes on some of `hosts`. `address`: of its peer daemon. `authority`: of the
  // daemons' certificates; 0: they have none. LIFETIME: `world` and `counts` outlive it, and the
  // world does not run after its end.
  HostileTenant(SimWorld& world, const std::vector<int>& hosts, std::string address,
                uint64_t authority, uint64_t seed, RandomCounts& counts);

  // One of its processes does one step.
  void Act();
  // The daemon of a host has ended, and with it the processes there.
  void OnDaemonDied(int host);
  // Ends all its processes and closes its connections.
  void Leave();

  // The first access to other tenants' memory; empty: none.
  std::string FindViolation() const;
  const std::string& address() const { return address_; }

 private:
  struct Process {
    int host = 0;
    int rank = 0;
    SimTenant* tenant = nullptr;
    SimRank* comm = nullptr;
    std::byte* buffers[2] = {nullptr, nullptr};
    bool alive = true;
    size_t next = 0;  // index in calls_
  };
  struct Call {
    OpKind kind = OpKind::kAllReduce;
    uint64_t count = 0;
    int root = 0;
  };

  uint64_t Below(uint64_t limit) { return dice_() % limit; }
  void Count(RandomEvent event) { counts_.Add(event); }
  wire::UniqueId MakeUniqueId();
  void ChooseCertificate(uint64_t authority);
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
  bool same_size_ = true;                     // its processes name the same size
  bool is_rendezvous_ = true;                 // its peer daemon is the rendezvous
  bool invalid_calls_ = false;                // its processes use invalid arguments
  bool control_calls_ = false;                // its processes send control messages too
  std::unique_ptr<SimSecurity> certificate_;  // of its peer daemon; null: it has none
  bool must_fail_ = false;                    // its peer daemon lacks a certificate that it needs
  std::unique_ptr<HostilePeer> peer_;
  bool has_left_ = false;
};

// The hostile tenants of one random world: when they start, act and leave, and whether any of
// their state remains.
class HostileTenants {
 public:
  // `authority`: as for HostileTenant. LIFETIME: `world` and `counts` outlive it, and the world
  // does not run after its end.
  HostileTenants(SimWorld& world, uint64_t authority, uint64_t seed, RandomCounts& counts);

  // May start a hostile tenant on some of these hosts; each existing one may act.
  void Act(const std::vector<int>& hosts);
  // The daemon of a host has ended.
  void OnDaemonDied(int host);
  // All hostile tenants end, and no other starts.
  void Leave();

  // Their connections, processes, communicators and buffers that some daemon still has; empty:
  // none.
  // REQUIRES: Leave() was called.
  std::string FindRemainingState() const;
  // The first access to other tenants' memory; empty: none.
  std::string FindViolation() const;

 private:
  SimWorld& world_;
  const uint64_t authority_;
  RandomCounts& counts_;
  Dice dice_;
  uint64_t expected_;  // how many may still start
  std::deque<HostileTenant> hostile_tenants_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_HOSTILE_TENANT_H_
