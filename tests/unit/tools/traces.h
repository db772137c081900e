// Traces of operations for tests, as the controller sends them.
#ifndef MCCS_TESTS_UNIT_TOOLS_TRACES_H_
#define MCCS_TESTS_UNIT_TOOLS_TRACES_H_

#include <cstdint>

#include "proto/operation_trace.pb.h"
#include "proto/operator.pb.h"

namespace mccs {

// The times of an operation's steps; 0: it has no such step.
struct TraceSteps {
  int64_t first_posted, all_posted, started, first_sent, first_landed, last_landed, device_done,
      done;
};

// Appends an all-reduce of 8 bytes.
inline void AddOperation(uint64_t number, const TraceSteps& steps, trace::Host* host) {
  trace::Operation* operation = host->add_operations();
  operation->set_number(number);
  operation->set_kind("all_reduce");
  operation->set_bytes(8);
  operation->set_first_posted_ns(steps.first_posted);
  operation->set_all_posted_ns(steps.all_posted);
  operation->set_started_ns(steps.started);
  operation->set_first_sent_ns(steps.first_sent);
  operation->set_first_landed_ns(steps.first_landed);
  operation->set_last_landed_ns(steps.last_landed);
  operation->set_device_done_ns(steps.device_done);
  operation->set_done_ns(steps.done);
}

// Host h0 has 100 operations, h1 has 2 that end early, and h2 is lost.
inline control::v1::TraceReply TraceOfThreeHosts() {
  control::v1::TraceReply reply;
  reply.set_id("3f2a90c1d4e5b607");
  trace::Host* h0 = reply.add_hosts();
  h0->set_host("h0");
  for (uint64_t i = 0; i < 100; ++i) {
    const auto at = static_cast<int64_t>(10'000 + 100'000 * i);
    const auto more = static_cast<int64_t>(i);
    AddOperation(1200 + i,
                 {at, at + 500, at + 1500, at + 2100 + more, at + 9000, at + 11'000, at + 11'400,
                  at + 12'000},
                 h0);
  }
  trace::Host* h1 = reply.add_hosts();
  h1->set_host("h1");
  h1->set_error("traced 2 of 100 operations: timed out after 10 s (only collectives are traced)");
  for (const uint64_t number : {1200, 1201})
    AddOperation(number, {50, 60, 70, 0, 0, 0, 90, 250}, h1);
  trace::Host* h2 = reply.add_hosts();
  h2->set_host("h2");
  h2->set_error("it is lost since 2 s: its connection closed");
  return reply;
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TOOLS_TRACES_H_
