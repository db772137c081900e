// On which hosts the rendezvous of NCCL_COMM_ID are open, and which hosts seek them
// (agent.v1.NamedRendezvous).
#ifndef MCCS_CONTROLLER_COORDINATOR_NAMED_RENDEZVOUS_H_
#define MCCS_CONTROLLER_COORDINATOR_NAMED_RENDEZVOUS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/agent.pb.h"

namespace mccs {

class NamedRendezvousTable {
 public:
  struct Answer {
    std::string to;  // the host that seeks
    uint64_t id = 0;
    std::string host;  // on which it is open
  };

  // The host's last message.
  void Set(const std::string& host, const agent::v1::NamedRendezvous& all);
  // The host is lost: it sends everything again when it returns.
  void Remove(const std::string& host) { Set(host, {}); }
  // Those not told yet. If a rendezvous is open on several hosts, on that where it opened last.
  std::vector<Answer> TakeAnswers();

 private:
  struct Place {
    std::vector<std::string> open;            // hosts, the last one last
    std::map<std::string, std::string> told;  // by host that seeks: the answer; empty: none yet
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
