#include "lab/link_report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lab/link_rates.h"
#include "tests/unit/lab/small_fabric.h"
#include "tests/unit/lab/temporary_directory.h"

namespace mccs::lab {
namespace link_report_test {

const std::vector<LinkLine> kLines = {{"leaf0-spine0", "leaf0", "spine0", 1234, 50 * kMbps, true},
                                      {"leaf0-spine0", "spine0", "leaf0", 5, 50 * kMbps, false}};

TEST(LinkReport, HasALineForEachDirection) {
  EXPECT_EQ(LinkTable(kLines),
            "LINK          FROM    TO      BYTES  RATE       STATE\n"
            "leaf0-spine0  leaf0   spine0  1234   50 Mbit/s  up\n"
            "leaf0-spine0  spine0  leaf0   5      50 Mbit/s  down\n");
  EXPECT_EQ(nlohmann::json::parse(LinkJson({kLines[0]})), nlohmann::json::parse(R"([
    {"link": "leaf0-spine0", "from": "leaf0", "to": "spine0", "bytes": 1234,
     "rate_bps": 50000000, "state": "up"}])"));
}

TEST(LinkRates, DefaultToTheTopologysRates) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/rates.yaml";
  const FabricPlan plan = SmallFabric();
  std::vector<uint64_t> rates = ReadLinkRates(path, plan).value();
  ASSERT_EQ(rates.size(), plan.cables.size());
  EXPECT_EQ(rates[3], 50 * kMbps);
  rates[3] = 7;
  ASSERT_TRUE(WriteLinkRates(path, plan, rates).ok());
  EXPECT_EQ(ReadLinkRates(path, plan).value(), rates);
}

TEST(LinkRates, RejectsAnInvalidFile) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/rates.yaml";
  std::ofstream(path) << "bits_per_second: {no-such-link: 5}\n";
  EXPECT_FALSE(ReadLinkRates(path, SmallFabric()).ok());
}

}  // namespace link_report_test
}  // namespace mccs::lab
