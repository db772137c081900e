// On which hosts the rendezvous of NCCL_COMM_ID are open, and which hosts seek them
// (agent.v1.NamedRendezvous). If one is open on several hosts, the host that opened it first is the
// answer while it is connected: so a daemon cannot take over a rendezvous that is open.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_COORDINATOR_NAMED_RENDEZVOUS_H_
#define MCCS_CONTROLLER_COORDINATOR_NAMED_RENDEZVOUS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/agent.pb.h"

namespace mccs {

class NamedRendezvousTable {
 public:
  // Of one host, open and sought each: as many as a daemon sends (kMaxNamedRendezvous of
  // service/communicator/membership/named_rendezvous.h).
  static constexpr size_t kMaxPerHost = 4096;

  struct Answer {
    std::string to;  // the host that seeks
    uint64_t id = 0;
    std::string host;  // on which it is open
  };

  // The host's last message. kResourceExhausted: it has more than kMaxPerHost; only the first ones
  // are used. Takes time for the message, and for each change the number of hosts that have the
  // rendezvous open.
  absl::Status Set(const std::string& host, const agent::v1::NamedRendezvous& all);
  // The host is lost: it sends everything again when it returns.
  void Remove(const std::string& host) { Set(host, {}).IgnoreError(); }
  // Those that the seeking hosts have not got yet.
  std::vector<Answer> TakeAnswers();

 private:
  struct Place {
    std::vector<std::string> open;  // hosts, in the order in which they opened it
    std::set<std::string> seekers;  // hosts
    std::string answer;             // the last one sent; empty: none yet
    std::set<std::string> waiting;  // seekers that have not got `answer`
  };
  struct OfHost {
    std::set<uint64_t> open, sought;
  };

  std::map<uint64_t, Place> places_;
  std::map<std::string, OfHost> hosts_;
  std::set<uint64_t> changed_;  // ids that may have answers to send
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_NAMED_RENDEZVOUS_H_
