#include "service/agent/order_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace mccs {
namespace order_proto_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

agent::v1::Probe Message() {
  agent::v1::Probe message;
  message.set_request_id(7);
  agent::v1::ProbeFlow* flow = message.add_flows();
  flow->set_source("10.0.0.1");
  flow->set_destination("10.0.1.1");
  flow->set_protocol(17);
  flow->set_source_port(61000);
  flow->set_destination_port(4791);
  flow->set_switches(3);
  return message;
}

TEST(ProbeProto, ConvertsAFlow) {
  const auto tasks = ProbeTasksFromProto(Message());
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  ASSERT_EQ(tasks->size(), 1u);
  EXPECT_EQ(tasks->front().flow, (FiveTuple{.source_address = 0x0a000001,
                                            .destination_address = 0x0a000101,
                                            .protocol = kProtocolUdp,
                                            .source_port = 61000,
                                            .destination_port = 4791}));
  EXPECT_EQ(tasks->front().switches, 3);
}

TEST(ProbeProto, RejectsInvalidFlows) {
  const auto rejection = [](const std::function<void(agent::v1::ProbeFlow*)>& spoil) {
    agent::v1::Probe message = Message();
    spoil(message.mutable_flows(0));
    const auto tasks = ProbeTasksFromProto(message);
    EXPECT_EQ(tasks.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(tasks.status().message());
  };
  EXPECT_THAT(rejection([](auto* flow) { flow->set_source("h1"); }), HasSubstr("'h1'"));
  EXPECT_THAT(rejection([](auto* flow) { flow->set_destination("fd00::1"); }),
              HasSubstr("fd00::1"));
  EXPECT_THAT(rejection([](auto* flow) { flow->set_protocol(1); }), HasSubstr("protocol 1"));
  EXPECT_THAT(rejection([](auto* flow) { flow->set_protocol(6 + 256); }),
              HasSubstr("protocol 262"));
  EXPECT_THAT(rejection([](auto* flow) { flow->set_source_port(0); }), HasSubstr("port 0"));
  EXPECT_THAT(rejection([](auto* flow) { flow->set_destination_port(65536); }), HasSubstr("65536"));
  EXPECT_THAT(rejection([](auto* flow) { flow->set_switches(0); }), HasSubstr("0 switches"));
  EXPECT_THAT(rejection([](auto* flow) { flow->set_switches(17); }), HasSubstr("17 switches"));
  agent::v1::Probe many = Message();
  while (many.flows_size() <= static_cast<int>(kMaxProbeTasks)) *many.add_flows() = many.flows(0);
  EXPECT_FALSE(ProbeTasksFromProto(many).ok());
  EXPECT_FALSE(ProbeTasksFromProto(agent::v1::Probe()).ok());
}

TEST(ProbeProto, OutcomesKeepTheirOrder) {
  const agent::v1::Probed message =
      ToMessage(7, {{.hops = {0x0aff0001, 0}, .why_not = ""}, {.hops = {}, .why_not = "no"}});
  EXPECT_EQ(message.request_id(), 7u);
  ASSERT_EQ(message.flows_size(), 2);
  EXPECT_THAT(message.flows(0).hops(), ElementsAre("10.255.0.1", ""));
  EXPECT_EQ(message.flows(0).error(), "");
  EXPECT_THAT(message.flows(1).hops(), IsEmpty());
  EXPECT_EQ(message.flows(1).error(), "no");
  EXPECT_EQ(ProbeError(Message(), "no").flows(0).error(), "no");
}

TEST(ReportIntervalProto, RegistrationAndChangeSetIt) {
  agent::v1::ToAgent message;
  EXPECT_EQ(ReportIntervalFromProto(message), std::nullopt);
  message.mutable_heartbeat();
  EXPECT_EQ(ReportIntervalFromProto(message), std::nullopt);
  message.mutable_registered();
  EXPECT_EQ(ReportIntervalFromProto(message), kDefaultReportIntervalNs) << "an older controller";
  message.mutable_registered()->set_report_every_ns(kNsPerSec);
  EXPECT_EQ(ReportIntervalFromProto(message), kNsPerSec);
  message.mutable_report_interval()->set_every_ns(5 * kNsPerSec);
  EXPECT_EQ(ReportIntervalFromProto(message), 5 * kNsPerSec);
  message.mutable_report_interval()->set_every_ns(1);
  EXPECT_EQ(ReportIntervalFromProto(message), kShortestReportIntervalNs);
}

}  // namespace order_proto_test
}  // namespace mccs
