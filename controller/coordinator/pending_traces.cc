#include "controller/coordinator/pending_traces.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {
namespace {

absl::Status ControllerStops() {
  return absl::FailedPreconditionError("the controller is stopping");
}

// Why the host cannot be asked; empty: it can.
std::string ErrorOf(const Registry& registry, const std::string& host, MonotonicNs now) {
  const auto known = registry.hosts().find(host);
  if (known == registry.hosts().end()) return "it has not registered with this controller";
  const HostRecord& record = known->second;
  if (record.state == HostState::kReady) return "";
  return absl::StrCat("it ", record.state == HostState::kLost ? "is lost" : "was rejected",
                      " since ", FormatAge(now - record.since), ": ", record.why);
}

}  // namespace

absl::StatusOr<PendingTraces::Started> PendingTraces::Add(const Registry& registry, CommId id,
                                                          uint32_t operations, MonotonicNs now,
                                                          TraceCallback callback) {
  if (stopped_) return ControllerStops();
  const agent::v1::Announce& announced = registry.communicators().at(id).announced;
  if (operations < 1 || operations > kMaxOperations) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot trace ", operations, " operations: expected 1 to ", kMaxOperations));
  }
  const auto hosts = static_cast<uint64_t>(announced.hosts_size());
  if (operations * hosts > kMaxTotalOperations) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot trace ", operations, " operations on ", hosts, " hosts: the limit is ",
        kMaxTotalOperations, " together; trace at most ", kMaxTotalOperations / hosts));
  }
  const bool traced =
      std::ranges::any_of(open_, [id](const auto& entry) { return entry.second.id == id; });
  if (traced) {
    return absl::FailedPreconditionError(
        absl::StrCat("a trace of communicator ", FormatCommId(id),
                     " is already running; try again when it has ended, after ",
                     kTimeoutNs / kNsPerSec, " s at most"));
  }
  if (open_.size() >= kMaxOpen) {
    return absl::ResourceExhaustedError(
        absl::StrCat(open_.size(), " traces are already running, which is the limit; try again in ",
                     kTimeoutNs / kNsPerSec, " s"));
  }
  Started started{.request_id = next_++, .agents = {}};
  Open open{.id = id,
            .until = now + kTimeoutNs,
            .callback = std::move(callback),
            .reply = {},
            .awaited = {}};
  open.reply.set_id(FormatCommId(id));
  for (const std::string& host : announced.hosts()) {
    trace::Host* const entry = open.reply.add_hosts();
    entry->set_host(host);
    entry->set_requested(operations);
    entry->set_error(ErrorOf(registry, host, now));
    if (!entry->error().empty()) continue;
    const AgentKey agent = registry.hosts().at(host).agent;
    open.awaited.emplace(host, agent);
    started.agents.push_back(agent);
  }
  if (!AnswerIfComplete(&open)) open_.emplace(started.request_id, std::move(open));
  return started;
}

trace::Host* PendingTraces::EntryOf(const std::string& host, Open* open) {
  auto& hosts = *open->reply.mutable_hosts();
  return &*std::ranges::find(hosts, host, [](const trace::Host& entry) { return entry.host(); });
}

bool PendingTraces::AnswerIfComplete(Open* open) {
  if (!open->awaited.empty()) return false;
  answers_.push_back({std::move(open->callback), std::move(open->reply)});
  return true;
}

void PendingTraces::Handle(const std::string& host, uint64_t request_id, trace::Host trace,
                           const std::optional<ClockReading>& clock) {
  const auto known = open_.find(request_id);
  if (known == open_.end() || known->second.awaited.erase(host) == 0) return;
  trace::Host* const entry = EntryOf(host, &known->second);
  const uint32_t requested = entry->requested();
  *entry = std::move(trace);
  entry->set_host(host);
  entry->set_requested(requested);
  if (clock.has_value()) {
    entry->set_clock_offset_ns(clock->offset_ns);
    entry->set_clock_error_ns(clock->error_ns);
  }
  if (AnswerIfComplete(&known->second)) open_.erase(known);
}

void PendingTraces::OnHostLost(const std::string& host, const std::string& why) {
  EndAwaits([&](const std::string& awaited, const Open&) {
    return awaited == host ? absl::StrCat("it was lost during the trace: ", why) : "";
  });
}

void PendingTraces::Expire(MonotonicNs now) {
  EndAwaits([&](const std::string&, const Open& open) {
    if (open.until > now) return std::string();
    return absl::StrCat("it is connected, but its daemon has not answered within ",
                        kTimeoutNs / kNsPerSec,
                        " s: its engine is stuck or very busy, or its release does not support "
                        "traces");
  });
}

void PendingTraces::EndAwaits(
    absl::FunctionRef<std::string(const std::string& host, const Open& open)> error_of) {
  for (auto it = open_.begin(); it != open_.end();) {
    Open& open = it->second;
    for (trace::Host& entry : *open.reply.mutable_hosts()) {
      if (!open.awaited.contains(entry.host())) continue;
      const std::string error = error_of(entry.host(), open);
      if (error.empty()) continue;
      entry.set_error(error);
      open.awaited.erase(entry.host());
    }
    it = AnswerIfComplete(&open) ? open_.erase(it) : std::next(it);
  }
}

std::vector<AgentKey> PendingTraces::Cancel(uint64_t request_id) {
  const auto known = open_.find(request_id);
  if (known == open_.end()) return {};
  std::vector<AgentKey> agents;
  for (const auto& [host, agent] : known->second.awaited) agents.push_back(agent);
  answers_.push_back(
      {std::move(known->second.callback), absl::CancelledError("the trace was cancelled")});
  open_.erase(known);
  return agents;
}

void PendingTraces::Stop() {
  stopped_ = true;
  for (auto& [request_id, open] : std::exchange(open_, {}))
    answers_.push_back({std::move(open.callback), ControllerStops()});
}

}  // namespace mccs
