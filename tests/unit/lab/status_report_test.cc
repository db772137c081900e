#include "lab/status_report.h"

#include <gtest/gtest.h>

namespace mccs::lab {
namespace {

std::vector<LabState> OneLab() {
  LabState lab;
  lab.name = "a";
  lab.supervisor_pid = 5;
  lab.size = {.hosts = 1, .gpus_per_host = 2};
  lab.ready = true;
  lab.daemons = {{"controller", "127.0.0.1", 6, "ready", "127.0.0.1:40000"},
                 {"h0", "127.0.0.1", 0, "exited with status 1", ""}};
  return {lab};
}

TEST(StatusTable, AlignsColumnsAndShowsHowADaemonEnded) {
  EXPECT_EQ(StatusTable(OneLab()),
            "LAB  DAEMON      GPUS  ENDPOINT         PID  CONDITION\n"
            "a    controller  -     127.0.0.1:40000  6    ready\n"
            "a    h0          2     -                -    exited with status 1\n");
}

TEST(StatusTable, SaysThatThereAreNoLabs) { EXPECT_EQ(StatusTable({}), "no labs\n"); }

TEST(StatusJson, IsOneListOfLabs) {
  EXPECT_EQ(StatusJson({}), "[]\n");
  EXPECT_EQ(
      StatusJson(OneLab()),
      R"([{"name": "a", "ready": true, "supervisor_pid": 5, "hosts": 1, "gpus_per_host": 2, "daemons": [)"
      R"({"name": "controller", "address": "127.0.0.1", "pid": 6, "condition": "ready", )"
      R"("endpoint": "127.0.0.1:40000"}, )"
      R"({"name": "h0", "address": "127.0.0.1", "pid": 0, "condition": "exited with status 1", )"
      R"("endpoint": ""}]}])"
      "\n");
}

}  // namespace
}  // namespace mccs::lab
