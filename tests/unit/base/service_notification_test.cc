#include "base/service_notification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace mccs {
namespace service_notification_test {

using testing::HasSubstr;

// A service manager's socket, bound to a path or, with a leading '@', to an abstract name.
class Manager {
 public:
  explicit Manager(const std::string& name)
      : name_(name), fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const size_t size = offsetof(sockaddr_un, sun_path) + name.size();
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0)
        << std::strerror(errno);
  }
  ~Manager() {
    if (name_[0] != '@') unlink(name_.c_str());
  }

  // The next datagram; "" if there is none.
  std::string Received() {
    char bytes[64];
    const ssize_t size = recv(fd_.get(), bytes, sizeof(bytes), 0);
    return size < 0 ? "" : std::string(bytes, size);
  }

 private:
  const std::string name_;
  const UniqueFd fd_;
};

std::string Path() { return absl::StrCat(testing::TempDir(), "/mccs-notify-", getpid()); }

TEST(ServiceNotification, ArrivesAtAPath) {
  Manager manager(Path());
  EXPECT_TRUE(NotifyServiceManager(Path().c_str(), "READY=1").ok());
  EXPECT_EQ(manager.Received(), "READY=1");
  EXPECT_TRUE(NotifyServiceManager(Path().c_str(), "STOPPING=1").ok());
  EXPECT_EQ(manager.Received(), "STOPPING=1");
  EXPECT_EQ(manager.Received(), "");
}

TEST(ServiceNotification, ArrivesAtAnAbstractName) {
  const std::string name = absl::StrCat("@mccs-notify-", getpid());
  Manager manager(name);
  EXPECT_TRUE(NotifyServiceManager(name.c_str(), "READY=1").ok());
  EXPECT_EQ(manager.Received(), "READY=1");
}

TEST(ServiceNotification, IsNotNeededWithoutAServiceManager) {
  EXPECT_TRUE(NotifyServiceManager(nullptr, "READY=1").ok());
  EXPECT_TRUE(NotifyServiceManager("", "READY=1").ok());
}

TEST(ServiceNotification, ReportsAMissingSocket) {
  const absl::Status status = NotifyServiceManager(Path().c_str(), "READY=1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(Path()));
  EXPECT_THAT(status.message(), HasSubstr("No such file"));
}

// The engine must not wait for the service manager.
TEST(ServiceNotification, IsDroppedIfTheQueueIsFullAndTheCallerMayNotWait) {
  Manager manager(Path());
  absl::Status status;
  int sent = 0;
  while ((status = NotifyServiceManager(Path().c_str(), kAlive, IfFull::kDrop)).ok() &&
         sent < 100'000) {
    ++sent;
  }
  EXPECT_GT(sent, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(manager.Received(), "WATCHDOG=1");
  EXPECT_TRUE(NotifyServiceManager(Path().c_str(), kAlive, IfFull::kDrop).ok());
}

TEST(ServiceWatchdog, IsGivenASignOfLifeTwiceInItsTime) {
  EXPECT_EQ(*WatchdogInterval("30000000", "77", 77), 15 * kNsPerSec);
  EXPECT_EQ(*WatchdogInterval("1", nullptr, 77), 500);
}

TEST(ServiceWatchdog, IsAbsentOrAnotherProcesss) {
  EXPECT_EQ(*WatchdogInterval(nullptr, nullptr, 77), kNever);
  EXPECT_EQ(*WatchdogInterval(nullptr, "77", 77), kNever);
  EXPECT_EQ(*WatchdogInterval("30000000", "78", 77), kNever);
}

TEST(ServiceWatchdog, RejectsWhatIsNoNumber) {
  for (const char* text :
       {"", "0", "-1", "1s", "1.5", "99999999999999999999", "9223372036854775807"}) {
    EXPECT_EQ(WatchdogInterval(text, nullptr, 77).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(WatchdogInterval("1", text, 77).status().message(), HasSubstr("WATCHDOG_PID"));
  }
}

TEST(ServiceNotification, RejectsAddressesOfOtherKinds) {
  for (const std::string& name : {std::string("relative"), std::string("vsock:2:1"),
                                  "/" + std::string(200, 'x'), "@" + std::string(200, 'x')}) {
    EXPECT_EQ(NotifyServiceManager(name.c_str(), "READY=1").code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

}  // namespace service_notification_test
}  // namespace mccs
