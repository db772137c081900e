#include "controller/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace config_test {

using testing::HasSubstr;

absl::Status Read(const std::string& text, ControllerConfig* config) {
  const std::string path = absl::StrCat(testing::TempDir(), "/controller-", getpid(), ".yaml");
  std::ofstream(path) << text;
  const absl::Status status = ReadControllerConfig(path, config);
  unlink(path.c_str());
  return status;
}

TEST(ControllerConfig, EveryKeyIsRead) {
  ControllerConfig config;
  const absl::Status status = Read(
      "listen: '[::1]:7600'\nstate_dir: /run/mccs\nstore: /var/lib/mccs/store.db\n"
      "metrics_listen: '0.0.0.0:7501'\nlog_level: debug\nheartbeat_timeout: 1500ms\n"
      "calibrate_costs: false\n",
      &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.listen, "[::1]:7600");
  EXPECT_EQ(config.state_dir, "/run/mccs");
  EXPECT_EQ(config.store, "/var/lib/mccs/store.db");
  EXPECT_EQ(config.metrics_listen, "0.0.0.0:7501");
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_EQ(config.heartbeat_timeout_ns, 1500 * kNsPerMs);
  EXPECT_FALSE(config.calibrate_costs);
}

TEST(ControllerConfig, ReportsInvalidValuesWithTheirPlaces) {
  ControllerConfig config;
  const absl::Status status =
      Read("listen: 7500\nlog_level: loud\nheartbeat_timeout: 5\nlisten_on: x\nmetrics_listen: x\n",
           &config);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("yaml:1:9: invalid address '7500'"));
  EXPECT_THAT(text, HasSubstr("yaml:2:12: invalid log level 'loud'"));
  EXPECT_THAT(text, HasSubstr("yaml:3:20: invalid heartbeat timeout '5'"));
  EXPECT_THAT(text, HasSubstr("yaml:4:1: unknown key 'listen_on'"));
  EXPECT_THAT(text, HasSubstr("yaml:5:17: invalid address 'x'"));
}

TEST(ControllerConfig, OperatorsHaveANameInCertificatesOrInTokens) {
  const std::string tls = "tls: {authority: /a, certificate: /b, key: /c}\n";
  const std::string tokens = "tokens: {issuer: i, audience: a, keys: /k, claim: email}\n";
  ControllerConfig config;
  const absl::Status status = Read(
      tls + tokens + "operators: [{name: a, role: viewer}, {token: a, role: admin}]\n", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.tokens, (TokenRules{"i", "a", "/k", "email"}));
  ASSERT_EQ(config.operators.size(), 2u);
  EXPECT_FALSE(config.operators[0].by_token);
  EXPECT_TRUE(config.operators[1].by_token);
  for (const auto& [text, problem] :
       {std::pair{tls + tokens + "operators: [{name: a, token: b, role: viewer}]", "or a `token`"},
        {tls + tokens + "operators: [{role: viewer}]", "or a `token`"},
        {tls + tokens + "operators: [{token: a, role: viewer}, {token: a, role: admin}]",
         "has a role already"},
        {tls + "operators: [{token: a, role: viewer}]", "set `tokens`"},
        {tls + "tokens: {issuer: i}", "`issuer`, `audience` and `keys`"},
        {tls + "tokens: {issuer: i, audience: a, keys: /k, claim: ''}", "`claim` is empty"},
        {tokens, "set `tls`"}}) {
    ControllerConfig other;
    EXPECT_THAT(std::string(Read(text, &other).message()), HasSubstr(problem)) << text;
  }
}

TEST(ControllerConfig, AddressesToListenOnAreChecked) {
  for (const char* good : {"0.0.0.0:7500", "[::]:0", "localhost:65535"}) {
    EXPECT_TRUE(CheckListenAddress(good).ok()) << good;
  }
  for (const char* bad :
       {"", ":", "a:", ":1", "a:b", "a:65536", "a:-1", "::1:7500", "[]:1", "a:99999999999"}) {
    EXPECT_FALSE(CheckListenAddress(bad).ok()) << bad;
  }
}

TEST(ControllerConfig, AHeartbeatTimeoutIsADurationWithUnits) {
  EXPECT_EQ(*ParseHeartbeatTimeout("1m1.5s"), 61'500 * kNsPerMs);
  for (const char* text : {"", "5", "s", "-1s", "0s", "99ms", "5 s", "1d", "inf", "9000h"})
    EXPECT_FALSE(ParseHeartbeatTimeout(text).ok()) << text;
}

}  // namespace config_test
}  // namespace mccs
