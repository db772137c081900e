// The server of /metrics, over a socket.
#include "base/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "base/unique_fd.h"

namespace mccs {
namespace metrics_server_test {

using testing::HasSubstr;

std::vector<prometheus::MetricFamily> OneNumber() {
  MetricFamilies out;
  out.BeginCounter("mccs_x_total", "X.");
  out.Add({{"tenant", "a \"b\"\n"}}, 42);
  return out.Take();
}

// Returns the server's whole response to a GET.
std::string Get(const std::string& endpoint, const std::string& path) {
  int port = 0;
  if (!absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port)) return "no port";
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) return "rejected";
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  if (write(socket.get(), request.data(), request.size()) < 0) return "not written";
  std::string answer;
  char piece[4096];
  for (ssize_t got; (got = read(socket.get(), piece, sizeof(piece))) > 0;) {
    answer.append(piece, static_cast<size_t>(got));
  }
  return answer;
}

TEST(MetricsServer, AnswersInPrometheusText) {
  const auto server = MetricsServer::Start("127.0.0.1:0", OneNumber);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->endpoint(), testing::StartsWith("127.0.0.1:"));
  const std::string answer = Get((*server)->endpoint(), "/metrics");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("# TYPE mccs_x_total counter\n"));
  EXPECT_THAT(answer, HasSubstr("mccs_x_total{tenant=\"a \\\"b\\\"\\n\"} 42\n"));
  EXPECT_THAT(Get((*server)->endpoint(), "/else"), HasSubstr("404"));
}

TEST(MetricsServer, AnAddressInUseIsNamed) {
  const auto server = MetricsServer::Start("127.0.0.1:0", OneNumber);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto second = MetricsServer::Start((*server)->endpoint(), OneNumber);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr((*server)->endpoint()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("metrics_listen"));
}

TEST(MetricsServer, AnAddressOfAnotherMachineIsRejected) {
  EXPECT_TRUE(absl::IsUnavailable(MetricsServer::Start("192.0.2.1:0", OneNumber).status()));
}

TEST(MetricsServer, FreesItsPortWhenDestroyed) {
  std::string endpoint;
  {
    const auto first = MetricsServer::Start("127.0.0.1:0", OneNumber);
    ASSERT_TRUE(first.ok()) << first.status();
    endpoint = (*first)->endpoint();
  }
  EXPECT_EQ(Get(endpoint, "/metrics"), "rejected");
  EXPECT_TRUE(MetricsServer::Start(endpoint, OneNumber).ok());
}

}  // namespace metrics_server_test
}  // namespace mccs
