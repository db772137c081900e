#include "lab/status_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mccs::lab {
namespace status_report_test {

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

}  // namespace status_report_test
}  // namespace mccs::lab
