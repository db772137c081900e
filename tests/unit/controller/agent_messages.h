// Short forms of agents' messages for tests.
#ifndef MCCS_TESTS_UNIT_CONTROLLER_AGENT_MESSAGES_H_
#define MCCS_TESTS_UNIT_CONTROLLER_AGENT_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/agent.pb.h"

namespace mccs {

// A numeric endpoint that differs from those of other names.
inline std::string EndpointOf(const std::string& name) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return "11." + std::to_string(hash >> 24) + "." + std::to_string(hash >> 16 & 255) + "." +
         std::to_string(hash & 255) + ":" + std::to_string(7400 + (hash >> 8 & 255));
}

inline agent::v1::Host MakeHost(const std::string& name, const std::string& rack = "",
                                const std::string& endpoint = "") {
  agent::v1::Host host;
  host.set_name(name);
  host.mutable_position()->set_rack(rack);
  host.set_peer_endpoint(endpoint.empty() ? EndpointOf(name) : endpoint);
  host.set_version("test");
  for (int gpu = 0; gpu < 2; ++gpu) host.add_gpus()->set_index(gpu);
  return host;
}

inline agent::v1::FromAgent Registration(const agent::v1::Host& host,
                                         const std::vector<agent::v1::Announce>& led = {}) {
  agent::v1::FromAgent message;
  message.mutable_registration()->set_protocol(1);
  *message.mutable_registration()->mutable_host() = host;
  for (const agent::v1::Announce& a : led) *message.mutable_registration()->add_communicators() = a;
  return message;
}

// One rank per host, and `channels` channels whose rings take the hosts in the given order.
inline agent::v1::Announce MakeAnnounce(uint64_t id, const std::vector<std::string>& hosts,
                                        int channels = 1) {
  agent::v1::Announce announce;
  announce.set_comm_id(id);
  announce.set_tenant("uid 1000");
  for (size_t i = 0; i < hosts.size(); ++i) {
    announce.add_hosts(hosts[i]);
    cluster::Member* member = announce.add_members();
    member->set_rank(static_cast<int>(i));
    member->set_host(hosts[i]);
  }
  strategy::Strategy* strategy = announce.mutable_strategy();
  strategy->set_epoch(1);
  strategy->set_skew(2);
  strategy->set_origin("daemon default");
  strategy->mutable_lanes()->set_slots(4);
  strategy->mutable_lanes()->set_slot_bytes(1 << 18);
  for (int c = 0; c < channels; ++c) {
    strategy::ChannelStrategy* channel = strategy->add_channels();
    for (size_t i = 0; i < hosts.size(); ++i) channel->add_ring(static_cast<int>(i));
  }
  return announce;
}

// Likewise, of a communicator that runs its daemons' default.
inline agent::v1::Announce MakeRunning(uint64_t id, const std::vector<std::string>& hosts) {
  agent::v1::Announce announce = MakeAnnounce(id, hosts);
  announce.set_running(true);
  return announce;
}

inline agent::v1::FromAgent Announcement(const agent::v1::Announce& announce) {
  agent::v1::FromAgent message;
  *message.mutable_announce() = announce;
  return message;
}

// The first report in `message`.
inline agent::v1::Report* ReportIn(agent::v1::FromAgent* message) {
  return message->mutable_reports()->mutable_complete(0);
}

inline agent::v1::FromAgent Reporting(uint64_t id, uint64_t epoch,
                                      const std::string& state = "active") {
  agent::v1::FromAgent message;
  agent::v1::Report* report = message.mutable_reports()->add_complete();
  report->set_comm_id(id);
  report->set_epoch(epoch);
  report->set_state(state);
  return message;
}

// A report, at 5 ns, of one lane between 10.0.0.1 and 10.0.0.2.
inline agent::v1::FromAgent ReportingLane(uint64_t id, int from, int to, int source_port,
                                          const std::string& state = "up") {
  agent::v1::FromAgent message = Reporting(id, 1);
  ReportIn(&message)->set_measured_ns(5);
  agent::v1::Lane* lane = ReportIn(&message)->add_lanes();
  lane->set_from(from);
  lane->set_to(to);
  lane->set_local("10.0.0.1:" + std::to_string(source_port));
  lane->set_remote("10.0.0.2:7400");
  lane->set_payload_bytes(100);
  lane->set_state(state);
  return message;
}

inline agent::v1::FromAgent Ending(uint64_t id) {
  agent::v1::FromAgent message;
  message.mutable_ended()->set_comm_id(id);
  message.mutable_ended()->set_reason("destroyed");
  return message;
}

inline agent::v1::FromAgent Beat() {
  agent::v1::FromAgent message;
  message.mutable_heartbeat();
  return message;
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_CONTROLLER_AGENT_MESSAGES_H_
