#include "tools/mccsctl/render.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "base/table.h"

namespace mccs {
namespace render_test {

constexpr int64_t kSecond = 1'000'000'000;

control::v1::CommunicatorSummary Summary() {
  control::v1::CommunicatorSummary summary;
  summary.set_id("3f2a90c1d4e5b607");
  summary.set_name("ddp");
  summary.set_tenant("uid 1000");
  summary.set_state("active");
  summary.set_ranks(4);
  summary.set_hosts(2);
  summary.set_channels(2);
  summary.set_epoch(2);
  summary.set_strategy("locality_ring");
  summary.set_operations(1200);
  summary.set_bytes(3ull << 29);
  summary.set_age_ns(185 * kSecond);
  return summary;
}

control::v1::CommunicatorDetail Detail() {
  control::v1::CommunicatorDetail detail;
  *detail.mutable_summary() = Summary();
  for (int rank = 0; rank < 4; ++rank) {
    cluster::Member* member = detail.add_members();
    member->set_rank(rank);
    member->set_host(rank < 2 ? "h0" : "h1");
    member->set_gpu(rank % 2 == 0 ? "0000:1b:00.0" : "");
    member->set_process(900 + 60 * rank);
  }
  for (int c = 0; c < 2; ++c) {
    control::v1::Ring* ring = detail.add_rings();
    ring->set_channel(c);
    ring->add_hosts("h0");
    ring->add_hosts("h1");
    for (int i = 0; i < 2; ++i) {
      control::v1::LaneStatus* lane = detail.add_lanes();
      lane->set_channel(c);
      lane->set_from(i == 0 ? "h0" : "h1");
      lane->set_to(i == 0 ? "h1" : "h0");
      if (c == 0 || i == 0) {
        lane->set_local(i == 0 ? "10.0.0.1:61007" : "10.0.0.2:65000");
        lane->set_remote(i == 0 ? "10.0.0.2:7400" : "10.0.0.1:7400");
      }
      lane->set_bytes(i == 0 ? 805306368 : 512);
      lane->set_state(c == 0 || i == 0 ? "up" : "stalled: connection reset by h0");
    }
  }
  return detail;
}

TEST(Render, ACommunicatorInFull) {
  EXPECT_EQ(RenderCommunicator(Detail()),
            "Communicator 3f2a90c1d4e5b607\n"
            "  Name:        ddp\n"
            "  Tenant:      uid 1000\n"
            "  State:       active\n"
            "  Ranks:       4 on 2 hosts\n"
            "  Epoch:       2\n"
            "  Strategy:    locality_ring, 2 channels\n"
            "  Operations:  1200\n"
            "  Bytes:       1.5 GiB\n"
            "  Age:         3 min 5 s\n"
            "\n"
            "Ranks\n"
            "  RANK  HOST  GPU            PID\n"
            "     0  h0    0000:1b:00.0   900\n"
            "     1  h0    -              960\n"
            "     2  h1    0000:1b:00.0  1020\n"
            "     3  h1    -             1080\n"
            "\n"
            "Rings\n"
            "  CHANNEL  RING\n"
            "        0  h0 → h1 → h0\n"
            "        1  h0 → h1 → h0\n"
            "\n"
            "Lanes\n"
            "  CHANNEL  FROM  TO  LOCAL (SOURCE PORT)  REMOTE            SENT  RECONNECTS  STATE\n"
            "        0  h0    h1  10.0.0.1:61007       10.0.0.2:7400  768 MiB           0  up\n"
            "        0  h1    h0  10.0.0.2:65000       10.0.0.1:7400    512 B           0  up\n"
            "        1  h0    h1  10.0.0.1:61007       10.0.0.2:7400  768 MiB           0  up\n"
            "        1  h1    h0  -                    -                512 B           0  "
            "stalled: connection "
            "reset by h0\n");
}

TEST(Render, ShowsOptionsOfCalls) {
  control::v1::CommunicatorDetail detail = Detail();
  EXPECT_EQ(RenderCommunicator(detail).find("Options:"), std::string::npos);
  agent::v1::CallsWithOptions* options = detail.mutable_with_options();
  options->set_calls(40);
  options->set_last_number(1199);
  options->set_deadline_us(2000);
  options->set_criticality(agent::v1::CRITICAL);
  EXPECT_NE(
      RenderCommunicator(detail).find(
          "  Options:     last on #1199: deadline 2000 us, critical (40 calls with options)\n"),
      std::string::npos)
      << RenderCommunicator(detail);
  options->set_calls(1);
  options->set_priority(7);
  options->set_criticality(agent::v1::CRITICALITY_UNSPECIFIED);
  EXPECT_NE(RenderCommunicator(detail).find("#1199: priority 7, deadline 2000 us (1 call "),
            std::string::npos)
      << RenderCommunicator(detail);
}

TEST(Render, ShowsProgressOfHosts) {
  control::v1::CommunicatorDetail detail = Detail();
  EXPECT_EQ(RenderCommunicator(detail).find("Change:"), std::string::npos);
  for (const auto& [name, epoch] : {std::pair("h0", 3), std::pair("h1", 2)}) {
    control::v1::HostProgress* host = detail.add_progress();
    host->set_host(name);
    host->set_epoch(static_cast<uint64_t>(epoch));
    host->set_operations(1200);
    host->set_state("active");
  }
  detail.mutable_change()->set_epoch(3);
  detail.mutable_change()->set_age_ns(2'000'000'000);
  detail.mutable_change()->add_pending_hosts("h1");
  EXPECT_THAT(
      RenderCommunicator(detail),
      testing::HasSubstr("  Change:      epoch 3 proposed 2 s ago, not yet applied on h1\n"));
  EXPECT_THAT(RenderCommunicator(detail),
              testing::HasSubstr("\nHosts\n"
                                 "  HOST  EPOCH  OPERATIONS  STATE\n"
                                 "  h0        3        1200  active\n"
                                 "  h1        2        1200  active\n"));
  detail.clear_change();
  detail.set_change_error("no memory\nfor new lanes");
  EXPECT_THAT(RenderCommunicator(detail),
              testing::HasSubstr("  Rejected:    no memory?for new lanes\n"));
}

TEST(Render, ShowsSendWindows) {
  control::v1::CommunicatorDetail detail = Detail();
  EXPECT_EQ(RenderCommunicator(detail).find("Send window:"), std::string::npos);
  detail.set_send_windows(
      "for 140 ms of each 200 ms, in the pauses of communicator 3f2a90c1d4e5b607");
  EXPECT_THAT(RenderCommunicator(detail),
              testing::HasSubstr("  Send window: for 140 ms of each 200 ms, in the pauses"));
}

TEST(Render, TopHasOneLinePerCommunicator) {
  control::v1::TopRates top;
  EXPECT_EQ(RenderTop(top, false), "No communicators.\n");
  control::v1::CommunicatorRates* rates = top.add_communicators();
  rates->set_id("3f2a90c1d4e5b607");
  rates->set_tenant("team-a");
  rates->set_ranks(8);
  rates->set_operations_per_second(1234.4);
  rates->set_algbw(2.5e9);
  rates->set_busbw(4.375e9);
  rates->add_links("h0/nic0-leaf0");
  rates->add_links("leaf0-spine1");
  rates->set_state("active");
  EXPECT_EQ(RenderTop(top, false),
            "TENANT  COMMUNICATOR      NAME  RANKS  OPS/S      ALGBW      BUSBW  LINKS  STATE\n"
            "team-a  3f2a90c1d4e5b607  -         8   1234  2.50 GB/s  4.38 GB/s      2  active\n");
  EXPECT_THAT(RenderTop(top, true), testing::HasSubstr("  h0/nic0-leaf0, leaf0-spine1  active\n"));
  rates->add_pairs("h0 → h1");
  rates->set_operations_per_second(0.25);
  rates->set_algbw(999);
  EXPECT_THAT(RenderTop(top, false), testing::HasSubstr("0.2  1.00 kB/s  4.38 GB/s  2 + 1 pair"));
  EXPECT_THAT(RenderTop(top, true),
              testing::HasSubstr("  h0/nic0-leaf0, leaf0-spine1, h0 → h1  active\n"));
  rates->clear_links();
  rates->add_pairs("h1 → h0");
  EXPECT_THAT(RenderTop(top, false), testing::HasSubstr("4.38 GB/s  2 pairs"));
}

TEST(Render, HostsShowTheirDrain) {
  control::v1::ListHostsReply reply;
  control::v1::HostStatus* host = reply.add_hosts();
  host->mutable_host()->set_name("h1");
  host->set_state("ready");
  host->set_drain("draining");
  EXPECT_THAT(RenderHosts(reply), testing::HasSubstr("  ready, draining\n"));
}

TEST(Render, ShowsHints) {
  control::v1::CommunicatorDetail detail = Detail();
  EXPECT_EQ(RenderCommunicator(detail).find("Hints:"), std::string::npos);
  cluster::Hints* hints = detail.mutable_hints();
  hints->set_algorithms("^NVLS");
  hints->set_min_channels(2);
  hints->set_max_channels(4);
  hints->set_buffer_bytes(4 << 20);
  hints->set_traffic_class(0);
  EXPECT_THAT(RenderCommunicator(detail),
              testing::HasSubstr("  Hints:       algorithms ^NVLS, at least 2 channels, at most 4 "
                                 "channels, buffers of 4 MiB, traffic class 0\n"));
}

TEST(Render, ShowsCapturedGroups) {
  control::v1::CommunicatorDetail detail = Detail();
  EXPECT_EQ(RenderCommunicator(detail).find("CUDA graphs:"), std::string::npos);
  detail.set_captured_groups(12);
  EXPECT_THAT(RenderCommunicator(detail), testing::HasSubstr("  CUDA graphs: 12 captured\n"));
}

TEST(Render, ShowsHostsThatStageBuffers) {
  control::v1::CommunicatorDetail detail = Detail();
  detail.add_staged("h0: no access between its GPUs");
  EXPECT_THAT(RenderCommunicator(detail),
              testing::HasSubstr("  Staged:      h0: no access between its GPUs\n"));
}

TEST(Render, ShowsStalledOperationsBeforeRanks) {
  control::v1::CommunicatorDetail detail = Detail();
  detail.add_stalled_on("operation #3: rank 0 waits for rank 1 on h1, which has not called it");
  EXPECT_THAT(RenderCommunicator(detail),
              testing::HasSubstr("  Age:         3 min 5 s\n"
                                 "\n"
                                 "Stalled operations\n"
                                 "  operation #3: rank 0 waits for rank 1 on h1, which has not "
                                 "called it\n"
                                 "\n"
                                 "Ranks\n"));
}

TEST(Render, ACommunicatorOnOneHostHasNoLanes) {
  control::v1::CommunicatorDetail detail;
  *detail.mutable_summary() = Summary();
  detail.mutable_summary()->set_hosts(1);
  detail.mutable_summary()->set_channels(1);
  detail.add_rings()->add_hosts("h0");
  const std::string text = RenderCommunicator(detail);
  EXPECT_NE(text.find("4 on 1 host\n"), std::string::npos) << text;
  EXPECT_NE(text.find("1 channel\n"), std::string::npos) << text;
  EXPECT_NE(text.find("h0 (one host: no lanes)\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("Lanes\n"), std::string::npos) << text;
}

TEST(Render, Communicators) {
  control::v1::ListCommunicatorsReply reply;
  *reply.add_communicators() = Summary();
  EXPECT_EQ(RenderCommunicators(reply),
            "ID                NAME  TENANT    RANKS  HOSTS  CHANNELS  EPOCH  STRATEGY       "
            "OPERATIONS    BYTES"
            "        AGE  STATE\n"
            "3f2a90c1d4e5b607  ddp   uid 1000      4      2         2      2  locality_ring        "
            "1200  1.5 GiB"
            "  3 min 5 s  active\n");
}

TEST(Render, Hosts) {
  control::v1::ListHostsReply reply;
  control::v1::HostStatus* status = reply.add_hosts();
  status->mutable_host()->set_name("h0");
  status->mutable_host()->mutable_position()->set_rack("r1");
  status->mutable_host()->add_gpus();
  status->mutable_host()->set_peer_endpoint("10.0.0.1:7400");
  agent::v1::Nic* nic = status->mutable_host()->add_nics();
  nic->set_name("eth0");
  nic->add_addresses("10.0.0.1");
  nic->set_speed_bps(25'000'000'000);
  status->mutable_host()->add_nics()->set_name("lo");
  status->set_state("ready");
  status->set_age_ns(12 * kSecond);
  status->set_communicators(3);
  EXPECT_EQ(
      RenderHosts(reply),
      "HOST  POD  RACK  GPUS  COMMUNICATORS  ENDPOINT       TRANSPORT  NICS                   "
      "      SINCE  STATE\n"
      "h0    -    r1       1              3  10.0.0.1:7400  -          eth0 10.0.0.1 25 Gbit/s"
      ", lo   12 s  ready\n");
}

TEST(Render, CertificatesThatEndSoonHaveANoteWithTheRemedy) {
  control::v1::ListHostsReply reply;
  control::v1::HostStatus* status = reply.add_hosts();
  status->mutable_host()->set_name("h1");
  status->set_state("ready");
  EXPECT_THAT(RenderHosts(reply), testing::Not(testing::HasSubstr("certificate")));
  status->set_certificate_problem("certificate ends in 9 d 3 h");
  reply.set_certificate_problem("certificate ended 2 h ago");
  const std::string text = RenderHosts(reply);
  EXPECT_THAT(text, testing::HasSubstr("  ready, certificate ends in 9 d 3 h\n"));
  EXPECT_THAT(text, testing::HasSubstr("\nNote: host h1: certificate ends in 9 d 3 h; renew it: "
                                       "mccs-controller issue-certificate PKI --host h1\n"));
  EXPECT_THAT(text, testing::HasSubstr("\nNote: the controller's certificate ended 2 h ago; renew "
                                       "it: mccs-controller issue-certificate PKI --controller\n"));
}

TEST(Render, HostsWithGpuProblemsHaveANoteForEach) {
  control::v1::ListHostsReply reply;
  for (const char* name : {"h0", "h1"}) {
    control::v1::HostStatus* status = reply.add_hosts();
    status->mutable_host()->set_name(name);
    status->set_state("ready");
  }
  agent::v1::GpuSurvey* survey = reply.mutable_hosts(1)->mutable_host()->mutable_gpu_survey();
  survey->add_problems("GPU 0: MIG is on: …; nvidia-smi -i 0 -mig 0");
  survey->add_problems("the driver has 3 GPUs, …");
  const std::string text = RenderHosts(reply);
  EXPECT_THAT(text, testing::HasSubstr("ready, GPU problem\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n\nNote: host h1: GPU 0: MIG is on: …; nvidia-smi -i 0 "
                                       "-mig 0\nNote: host h1: the driver has 3 GPUs, …\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("host h0:")));
}

TEST(Render, PrintsAMessageForEmptyLists) {
  EXPECT_EQ(RenderCommunicators({}), "No communicators.\n");
  EXPECT_EQ(RenderHosts({}), "No registered hosts. Start mccsd with this controller's address.\n");
}

TEST(Render, JsonIsReadBackAsTheSameMessage) {
  control::v1::CommunicatorDetail back;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(RenderJson(Detail()), &back).ok());
  EXPECT_EQ(back.SerializeAsString(), Detail().SerializeAsString());
}

TEST(Render, YamlIsABlockDocumentWithTheFieldsNames) {
  control::v1::ListCommunicatorsReply reply;
  *reply.add_communicators() = Summary();
  const std::string text = RenderYaml(reply);
  EXPECT_EQ(text.find('{'), std::string::npos) << text;
  EXPECT_EQ(text.rfind("communicators:\n", 0), 0u) << text;
  EXPECT_NE(text.find("id: 3f2a90c1d4e5b607\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ranks: 4\n"), std::string::npos) << text;
  EXPECT_EQ(RenderYaml(control::v1::ListCommunicatorsReply()), "communicators: []\n");
}

TEST(Table, ANameWithControlCharactersCannotMoveTheCursor) {
  Table table({{"NAME"}, {"N", Align::kRight}});
  table.Row({"a\x1b[2J\nb", "1"});
  EXPECT_EQ(table.Text(), "NAME     N\na?[2J?b  1\n");
}

TEST(Table, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(DisplayWidth("h0 → h1"), 7u);
  Table table({{"R"}, {"X"}});
  table.Row({"→", "1"});
  table.Row({"ab", "2"});
  EXPECT_EQ(table.Text(), "R   X\n→   1\nab  2\n");
}

TEST(RenderExplanation, ShowsReasonsAndRatesOfFlows) {
  control::v1::Explanation explanation;
  explanation.mutable_summary()->set_id("3f2a90c1d4e5b607");
  explanation.mutable_summary()->set_name("ddp");
  explanation.mutable_summary()->set_state("active");
  explanation.set_seconds(1);
  control::v1::Fact* fact = explanation.add_reasons();
  fact->set_name("Policy");
  fact->set_value("fair_flow by Policy 'all'");
  control::v1::ExplainedFlow* flow = explanation.add_flows();
  flow->set_from("h0");
  flow->set_to("h2");
  flow->set_local("10.0.0.1:61050");
  flow->set_in_ring(true);
  flow->add_links("leaf0-spine0");
  flow->set_fair_share_bps(4.7e9);
  flow->set_measured_bps(4.523456e9);
  flow->set_waited_for_credit_ns(123'000'000);
  flow->set_waited_for_rate_ns(9'000'000);
  flow->set_limit("leaf0 → spine0");
  control::v1::FlowSharer* sharer = flow->add_shared_with();
  sharer->set_tenant("b");
  sharer->set_communicator("8");
  sharer->set_flows(1);
  flow = explanation.add_flows();
  flow->set_from("h2");
  flow->set_to("h\n0");
  EXPECT_EQ(RenderExplanation(explanation),
            R"(Communicator 3f2a90c1d4e5b607 ddp, active

Why
  Policy  fair_flow by Policy 'all'

Flows, over 1 s
  CHANNEL  FROM  TO   LOCAL (SOURCE PORT)  LINKS         FAIR SHARE         RATE  STALLED ON   LIMITED BY
  0        h0    h2   10.0.0.1:61050       leaf0-spine0  4.7 Gbit/s  4.52 Gbit/s  credit 12 %  leaf0 → spine0, with 1 flow of b (8)
  0 *      h2    h?0                       -                      -      0 bit/s  -            -
  * not a lane of the ring: no fair share is computed
)");
}

}  // namespace render_test
}  // namespace mccs
