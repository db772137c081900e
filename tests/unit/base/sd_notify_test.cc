#include "base/sd_notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace mccs {
namespace sd_notify_test {

TEST(SdNotify, TheManagerReceivesTheMessage) {
  const std::string name = absl::StrCat("@mccs-sd-notify-test-", getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM, 0));
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
            0);
  ASSERT_TRUE(SdNotify(name, "READY=1").ok());
  char text[32];
  const ssize_t got = recv(manager.get(), text, sizeof(text), MSG_DONTWAIT);
  EXPECT_EQ(std::string(text, got < 0 ? 0 : got), "READY=1");
}

TEST(SdNotify, AnEmptySocketIsOk) { EXPECT_TRUE(SdNotify("", "READY=1").ok()); }

TEST(SdNotify, NamesAMissingSocket) {
  const absl::Status status = SdNotify("/nowhere/notify", "READY=1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("/nowhere/notify"), absl::string_view::npos);
}

TEST(SdNotify, RejectsALongPath) {
  EXPECT_EQ(SdNotify("/" + std::string(200, 'x'), "READY=1").code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace sd_notify_test
}  // namespace mccs
