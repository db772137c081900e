#include "tools/mccsctl/render_explanation.h"

#include <gtest/gtest.h>

namespace mccs {
namespace render_explanation_test {

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
  CHANNEL  FROM  TO   LOCAL (SOURCE PORT)  LINKS         FAIR SHARE         RATE  STALLED ON  LIMITED BY
  0        h0    h2   10.0.0.1:61050       leaf0-spine0  4.7 Gbit/s  4.52 Gbit/s  peer 12 %   leaf0 → spine0, with 1 flow of b (8)
  0 *      h2    h?0                       -                      -      0 bit/s  -           -
  * not a lane of the ring: no fair share is computed
)");
}

}  // namespace render_explanation_test
}  // namespace mccs
