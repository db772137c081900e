#include "lab/reports.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lab/link_commands.h"
#include "tests/unit/lab/small_fabric.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace reports_test {

std::vector<LabState> OneLab() {
  LabState lab;
  lab.name = "a";
  lab.supervisor_pid = 5;
  lab.ready = true;
  lab.daemons = {{"controller", "127.0.0.1", 6, "ready", "127.0.0.1:40000", 0, "127.0.0.1:40001"},
                 {"h0", "127.0.0.1", 0, "exited with status 1", "", 2}};
  return {lab};
}

TEST(StatusTable, AlignsColumnsAndShowsHowADaemonEnded) {
  EXPECT_EQ(StatusTable(OneLab()),
            "LAB  DAEMON      GPUS  ENDPOINT         METRICS          PID  CONDITION\n"
            "a    controller  -     127.0.0.1:40000  127.0.0.1:40001  6    ready\n"
            "a    h0          2     -                -                -    exited with status 1\n");
}

TEST(StatusTable, SaysThatThereAreNoLabs) { EXPECT_EQ(StatusTable({}), "no labs\n"); }

TEST(StatusJson, IsOneListOfLabs) {
  EXPECT_EQ(StatusJson({}), "[]\n");
  std::vector<LabState> labs = OneLab();
  EXPECT_EQ(nlohmann::json::parse(StatusJson(labs)), nlohmann::json::parse(R"([{
    "name": "a", "ready": true, "supervisor_pid": 5, "network": "processes", "nodes": [],
    "vms": [], "tenants": [],
    "daemons": [
      {"name": "controller", "address": "127.0.0.1", "pid": 6, "condition": "ready",
       "endpoint": "127.0.0.1:40000", "metrics": "127.0.0.1:40001", "gpus": 0},
      {"name": "h0", "address": "127.0.0.1", "pid": 0, "condition": "exited with status 1",
       "endpoint": "", "metrics": "", "gpus": 2}]}])"));
}

TEST(StatusJson, NamesTheHoldersOfNodes) {
  std::vector<LabState> labs = OneLab();
  labs[0].nodes = {{"controller", 7}, {"leaf0", 8}};
  const nlohmann::json lab = nlohmann::json::parse(StatusJson(labs))[0];
  EXPECT_EQ(lab["network"], "namespaces");
  EXPECT_EQ(lab["nodes"][1], nlohmann::json({{"name", "leaf0"}, {"pid", 8}}));
}

TEST(StatusJson, NamesVirtualMachines) {
  std::vector<LabState> labs = OneLab();
  labs[0].vms = {{"h0", 7, 40002}};
  const nlohmann::json lab = nlohmann::json::parse(StatusJson(labs))[0];
  EXPECT_EQ(lab["network"], "rdma-vms");
  EXPECT_EQ(lab["vms"][0], nlohmann::json({{"name", "h0"}, {"pid", 7}, {"agent_port", 40002}}));
}

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
  const std::string path = directory.File("rates.yaml");
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
  const std::string path = directory.File("rates.yaml");
  std::ofstream(path) << "bits_per_second: {no-such-link: 5}\n";
  EXPECT_FALSE(ReadLinkRates(path, SmallFabric()).ok());
}

}  // namespace reports_test
}  // namespace mccs::lab
