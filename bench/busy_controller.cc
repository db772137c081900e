#include "bench/busy_controller.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "controller/coordinator/registration.h"
#include "proto/agent.pb.h"

namespace mccs {
namespace {

std::string BusIdOf(int gpu) { return absl::StrCat("gpu", gpu); }

agent::v1::Announce AnnounceOf(const CommunicatorView& job) {
  agent::v1::Announce announce;
  announce.set_comm_id(job.id.value());
  announce.set_tenant(job.tenant);
  *announce.mutable_strategy() = job.strategy;
  announce.set_newest_epoch(job.strategy.epoch());
  for (size_t h = 0; h < job.hosts.size(); ++h) {
    announce.add_hosts(job.hosts[h]);
    for (const int gpu : job.gpus[h]) {
      cluster::Member* member = announce.add_members();
      member->set_rank(announce.members_size() - 1);
      member->set_host(job.hosts[h]);
      member->set_gpu(BusIdOf(gpu));
    }
  }
  return announce;
}

}  // namespace

std::shared_ptr<const ObjectSet> FairFlowObjects(std::shared_ptr<const Topology> topology) {
  auto objects = std::make_shared<ObjectSet>();
  const auto add = [&](ObjectKind kind, const std::string& name, auto spec) {
    Object object;
    object.key = {kind, name};
    object.version = 1;
    object.spec = std::move(spec);
    objects->objects[object.key] = std::move(object);
  };
  const std::string name = topology->name();
  add(ObjectKind::kTopology, name, TopologySpec{.text = "", .topology = std::move(topology)});
  PolicySpec fair_flow;
  fair_flow.type = "fair_flow";
  add(ObjectKind::kPolicy, "for-all", std::move(fair_flow));
  objects->revision = 1;
  return objects;
}

BusyController::BusyController(const ClusterView& idle)
    : log_(MakeNullLog()), coordinator_({.version = "bench"}, &clock_, log_.get()) {
  MCCS_CHECK(idle.topologies.size() == 1);
  for (const HostView& host : idle.hosts) Register(host);
  coordinator_.SetObjects(FairFlowObjects(idle.topologies.front()));
  coordinator_.TakeOutbox();
}

// The agent of a host, numbered by the host's name: "h12".
AgentKey BusyController::AgentOf(const std::string& host) {
  return AgentKey(std::strtoull(host.c_str() + 1, nullptr, 10) + 1);
}

void BusyController::Register(const HostView& host) {
  agent::v1::FromAgent message;
  agent::v1::Register* registration = message.mutable_registration();
  registration->set_protocol(kAgentProtocol);
  agent::v1::Host* out = registration->mutable_host();
  out->set_name(host.position.host);
  out->set_peer_endpoint(absl::StrCat(host.peer_address, ":", host.peer_port));
  for (int gpu = 0; gpu < host.gpus; ++gpu) {
    agent::v1::Gpu* each = out->add_gpus();
    each->set_index(gpu);
    each->set_bus_id(BusIdOf(gpu));
  }
  for (const NicView& nic : host.nics) {
    agent::v1::Nic* each = out->add_nics();
    each->set_name(nic.name);
    for (const std::string& address : nic.addresses) each->add_addresses(address);
  }
  coordinator_.Handle(AgentOf(host.position.host), message);
}

void BusyController::Announce(const CommunicatorView& job, bool running) {
  agent::v1::FromAgent message;
  *message.mutable_announce() = AnnounceOf(job);
  message.mutable_announce()->set_running(running);
  coordinator_.Handle(AgentOf(job.hosts.front()), message);
}

void BusyController::Start(const std::vector<CommunicatorView>& jobs) {
  for (const CommunicatorView& job : jobs) Announce(job, /*running=*/true);
  do {
    Tick();
  } while (AcceptProposals() > 0);
}

void BusyController::ReportEnd(CommId id) {
  const std::string leader = coordinator_.registry().communicators().at(id).leader;
  agent::v1::FromAgent message;
  message.mutable_ended()->set_comm_id(id.value());
  coordinator_.Handle(AgentOf(leader), message);
}

int BusyController::AcceptProposals() {
  int proposals = 0;
  for (const Outgoing& out : coordinator_.TakeOutbox()) {
    if (!out.message || !out.message->has_propose()) continue;
    ++proposals;
    const agent::v1::Propose& propose = out.message->propose();
    const CommunicatorRecord& record =
        coordinator_.registry().communicators().at(CommId(propose.comm_id()));
    agent::v1::FromAgent message;
    *message.mutable_announce() = record.announced;
    message.mutable_announce()->set_running(true);
    *message.mutable_announce()->mutable_strategy() = propose.strategy();
    message.mutable_announce()->set_newest_epoch(propose.strategy().epoch());
    coordinator_.Handle(AgentOf(record.leader), message);
  }
  return proposals;
}

}  // namespace mccs
