#include "controller/planning/measured_costs.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace measured_costs_test {

constexpr uint64_t kBpsPerBytePerUs = 8'000'000;

class MeasuredCosts : public testing::Test {
 protected:
  explicit MeasuredCosts(int hosts = 4) {
    std::vector<std::string> names;
    for (int h = 0; h < hosts; ++h) names.push_back("h" + std::to_string(h));
    communicator_.announced = MakeAnnounce(1, names);
  }
  agent::v1::Report& ReportOf(int host) {
    agent::v1::Report& report = communicator_.reports["h" + std::to_string(host)];
    report.set_epoch(1);
    return report;
  }
  void AddLane(int host, int64_t round_trip_ns, int channel = 0) {
    agent::v1::Lane* lane = ReportOf(host).add_lanes();
    lane->set_channel(channel);
    lane->set_round_trip_ns(round_trip_ns);
  }

  CommunicatorRecord communicator_;
};

TEST_F(MeasuredCosts, AreMediansOverHostsOfTheirLanes) {
  for (int h = 0; h < 3; ++h) {
    for (const int64_t lane : {1, 2, 3}) AddLane(h, (10 * h + lane) * 2 * kNsPerUs);
    ReportOf(h).set_sent_bps(static_cast<uint64_t>(100 * (h + 1)) * kBpsPerBytePerUs);
    ReportOf(h).set_memory_bps(static_cast<uint64_t>(1000 * (h + 1)) * kBpsPerBytePerUs);
  }
  EXPECT_EQ(MeasuredOf(communicator_).one_way_us, 12);
  EXPECT_EQ(MeasuredOf(communicator_).local_bytes_per_us, 2000);
  EXPECT_EQ(MeasuredOf(communicator_).host_bytes_per_us, 200);
}

TEST_F(MeasuredCosts, NeedReportsOfHalfOfTheHosts) {
  AddLane(0, 1000);
  ReportOf(0).set_sent_bps(1'000'000'000);
  EXPECT_EQ(MeasuredOf(communicator_), MeasuredFigures());
  AddLane(1, 1000);
  ReportOf(1).set_sent_bps(1'000'000'000);
  EXPECT_TRUE(MeasuredOf(communicator_).one_way_us.has_value());
  EXPECT_TRUE(MeasuredOf(communicator_).host_bytes_per_us.has_value());
}

TEST_F(MeasuredCosts, UseOnlyTheAppliedStrategysLanes) {
  for (int h = 0; h < 4; ++h) {
    AddLane(h, 1000);
    ReportOf(h).set_epoch(2);
  }
  EXPECT_EQ(MeasuredOf(communicator_), MeasuredFigures());
  communicator_.reports.clear();
  for (int h = 0; h < 4; ++h) AddLane(h, 1000, /*channel=*/32);  // messages
  EXPECT_EQ(MeasuredOf(communicator_), MeasuredFigures());
}

TEST_F(MeasuredCosts, ClampsExtremeReports) {
  for (int h = 0; h < 2; ++h) {
    AddLane(h, std::numeric_limits<int64_t>::max());
    AddLane(h, std::numeric_limits<int64_t>::max());
    ReportOf(h).set_sent_bps(std::numeric_limits<uint64_t>::max());
  }
  const MeasuredFigures measured = MeasuredOf(communicator_);
  EXPECT_LE(*measured.one_way_us, 1e7);
  EXPECT_LE(*measured.host_bytes_per_us, 1e6);
  communicator_.reports.clear();
  for (int h = 0; h < 4; ++h) {
    AddLane(h, -1);
    ReportOf(h).set_sent_bps(1);
  }
  EXPECT_FALSE(MeasuredOf(communicator_).one_way_us.has_value());
  EXPECT_GT(*MeasuredOf(communicator_).host_bytes_per_us, 0);
}

TEST(Calibrate, HopTimeExcludesTheEndsWork) {
  const CostParameters own;
  const auto costs = Calibrate(own, own, {.one_way_us = 100});
  ASSERT_TRUE(costs.has_value());
  EXPECT_EQ(costs->hop_us, 100 - 2 * own.slice_us);
  EXPECT_EQ(costs->host_bytes_per_us, own.host_bytes_per_us);
  EXPECT_EQ(Calibrate(*costs, own, {.one_way_us = 1})->hop_us, own.hop_us) << "and no less";
}

TEST(Calibrate, ALaneKeepsItsRatioToTheHost) {
  const CostParameters own{.lane_bytes_per_us = 500, .host_bytes_per_us = 2000};
  const CostParameters applied{.hop_us = 7, .lane_bytes_per_us = 9, .host_bytes_per_us = 9};
  const auto costs = Calibrate(applied, own, {.host_bytes_per_us = 100});
  ASSERT_TRUE(costs.has_value());
  EXPECT_EQ(costs->host_bytes_per_us, 100);
  EXPECT_EQ(costs->lane_bytes_per_us, 25);
  EXPECT_EQ(costs->hop_us, 7) << "what was not measured stays";
}

TEST(Calibrate, UsesTheMeasuredMemoryBandwidth) {
  const CostParameters own;
  for (const double factor : {0.25, 4.0}) {
    const auto costs = Calibrate(own, own, {.local_bytes_per_us = factor * own.local_bytes_per_us});
    ASSERT_TRUE(costs.has_value());
    EXPECT_EQ(costs->local_bytes_per_us, factor * own.local_bytes_per_us);
    EXPECT_EQ(costs->hop_us, own.hop_us);
    EXPECT_EQ(costs->host_bytes_per_us, own.host_bytes_per_us);
    EXPECT_TRUE(FarApart(*costs, own));
  }
}

TEST(Calibrate, RejectsInvalidCosts) {
  const CostParameters good;
  const CostParameters bad{.slice_us = std::numeric_limits<double>::quiet_NaN()};
  EXPECT_FALSE(Calibrate(bad, good, {}).has_value());
  EXPECT_FALSE(Calibrate(good, bad, {}).has_value());
  const CostParameters extreme{.lane_bytes_per_us = 1e308, .host_bytes_per_us = 1e-308};
  EXPECT_FALSE(Calibrate(good, extreme, {.host_bytes_per_us = 1}).has_value());
}

TEST(FarApart, IsTwiceAsLongOrHalfTheRate) {
  const CostParameters one{.hop_us = 12, .slice_us = 4};
  EXPECT_FALSE(FarApart(one, one));
  EXPECT_FALSE(FarApart(one, {.hop_us = 31, .slice_us = 4}));
  EXPECT_TRUE(FarApart(one, {.hop_us = 32, .slice_us = 4}));
  EXPECT_TRUE(FarApart({.hop_us = 32, .slice_us = 4}, one));
  EXPECT_FALSE(FarApart(one, {.hop_us = 12, .host_bytes_per_us = 1001}));
  EXPECT_TRUE(FarApart(one, {.hop_us = 12, .host_bytes_per_us = 1000}));
  EXPECT_TRUE(FarApart(one, {.hop_us = 12, .host_bytes_per_us = 4000}));
}

TEST(PutCosts, KeepsTheDaemonsOwnBesideThem) {
  const CostParameters own{.hop_us = 11};
  const CostParameters first{.hop_us = 100}, second{.hop_us = 50};
  strategy::Strategy strategy;
  EXPECT_EQ(CostsOf(strategy.algorithms()), CostParameters()) << "not said: those of cost.h";
  PutCosts(own, &strategy);
  strategy.mutable_algorithms()->clear_configured_costs();
  EXPECT_EQ(OwnCostsOf(strategy.algorithms()), own);
  PutCosts(first, &strategy);
  PutCosts(second, &strategy);
  EXPECT_EQ(CostsOf(strategy.algorithms()), second);
  EXPECT_EQ(OwnCostsOf(strategy.algorithms()), own);
  PutCosts(own, &strategy);
  EXPECT_EQ(CostsOf(strategy.algorithms()), own);
  EXPECT_FALSE(strategy.algorithms().has_configured_costs());
}

}  // namespace measured_costs_test
}  // namespace mccs
