// The Tenants that a daemon keeps for its next start.
#include "service/agent/tenants_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/agent/agent.h"
#include "tests/unit/agent/failing_disk.h"
#include "tests/unit/recording_log.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace tenants_file_test {

using testing::HasSubstr;

agent::v1::Tenants TeamA() {
  agent::v1::Tenants tenants;
  agent::v1::Tenant* tenant = tenants.add_tenants();
  tenant->set_name("team-a");
  tenant->add_declared_sockets()->set_path("a.sock");
  tenant->set_max_communicators(3);
  return tenants;
}

class TenantsFileTest : public testing::Test {
 protected:
  // An agent whose controller cannot be reached.
  std::unique_ptr<Agent> Start() {
    AgentOptions options;
    options.controller = "127.0.0.1:1";
    options.tenants_file = path_;
    auto agent = std::make_unique<Agent>(std::move(options), &log_);
    AgentHost host;
    host.position.host = "h0";
    EXPECT_TRUE(agent->Start(host).ok());
    return agent;
  }
  std::optional<std::vector<TenantEntry>> TenantsAtStart() { return Start()->TakeTenants(); }

  size_t FilesInDirectory() const {
    const std::filesystem::directory_iterator files(directory_.path());
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  // As a daemon that has just started.
  absl::Status Keep(const agent::v1::Tenants& tenants) {
    return TenantsFile(path_, &calls_).Keep(tenants);
  }
  std::string Kept() const {
    const auto kept = ReadTenantsFile(path_);
    return kept.ok() ? kept->SerializeAsString() : kept.status().ToString();
  }
  // A process writes another table, of 8 MiB, and dies after a part of it: the signal of the limit
  // of its files' size ends it.
  void DieInWrite() {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit part{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
      const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
      setrlimit(RLIMIT_CORE, &no_core);
      setrlimit(RLIMIT_FSIZE, &part);
      signal(SIGXFSZ, SIG_DFL);
      agent::v1::Tenants large;
      large.set_id_key(std::string(8 << 20, 'k'));
      (void)Keep(large);
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.File("tenants.table");
  FileCalls calls_;
  RecordingLog log_;
};

TEST_F(TenantsFileTest, ReturnsWhatWasWrittenLast) {
  EXPECT_TRUE(absl::IsNotFound(ReadTenantsFile(path_).status()));
  ASSERT_TRUE(Keep({}).ok());
  EXPECT_EQ(ReadTenantsFile(path_)->tenants_size(), 0);
  ASSERT_TRUE(Keep(TeamA()).ok());
  EXPECT_EQ(Kept(), TeamA().SerializeAsString());
}

TEST_F(TenantsFileTest, RejectsEachTruncatedFile) {
  ASSERT_TRUE(Keep(TeamA()).ok());
  const auto bytes = std::filesystem::file_size(path_);
  for (auto size = bytes; size-- > 0;) {
    std::filesystem::resize_file(path_, size);
    const auto read = ReadTenantsFile(path_);
    EXPECT_TRUE(absl::IsDataLoss(read.status())) << size;
    EXPECT_THAT(read.status().message(), HasSubstr(path_));
  }
}

TEST_F(TenantsFileTest, AnErrorNamesTheFile) {
  const std::string missing = directory_.File("none/tenants.table");
  EXPECT_THAT(TenantsFile(missing, &calls_).Keep(TeamA()).message(), HasSubstr(missing));
}

// No file may grow, as on a full disk.
class FullDisk {
 public:
  FullDisk() {
    getrlimit(RLIMIT_FSIZE, &before_);
    old_handler_ = signal(SIGXFSZ, SIG_IGN);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit before_{};
  sighandler_t old_handler_ = SIG_DFL;
};

TEST_F(TenantsFileTest, AFullDiskLeavesTheTableOfBefore) {
  ASSERT_TRUE(Keep(TeamA()).ok());
  absl::Status written;
  {
    const FullDisk full;
    written = Keep({});
  }
  EXPECT_THAT(written.message(), HasSubstr(path_));
  EXPECT_THAT(written.message(), HasSubstr("File too large"));
  EXPECT_EQ(Kept(), TeamA().SerializeAsString());
  EXPECT_EQ(FilesInDirectory(), 1u) << "no draft";
  EXPECT_TRUE(Keep({}).ok());
  EXPECT_EQ(ReadTenantsFile(path_)->tenants_size(), 0);
}

TEST_F(TenantsFileTest, ADeathInAWriteLeavesTheTableOfBefore) {
  ASSERT_TRUE(Keep(TeamA()).ok());
  for (int death = 0; death < 3; ++death) {
    DieInWrite();
    EXPECT_EQ(Kept(), TeamA().SerializeAsString());
  }
  EXPECT_LE(FilesInDirectory(), 2u) << "a draft per death";
  ASSERT_TRUE(Keep({}).ok());
  EXPECT_EQ(ReadTenantsFile(path_)->tenants_size(), 0);
  EXPECT_EQ(FilesInDirectory(), 1u) << "no draft";
}

TEST_F(TenantsFileTest, TenantsHoldAfterARestartWithoutAController) {
  EXPECT_FALSE(TenantsAtStart().has_value());
  ASSERT_TRUE(Keep(TeamA()).ok());
  const auto tenants = TenantsAtStart();
  ASSERT_TRUE(tenants.has_value());
  ASSERT_EQ(tenants->size(), 1u);
  EXPECT_EQ(tenants->front().selector.declared, "team-a");
  const std::vector<DeclaredSocket> sockets = {{.path = "a.sock", .mode = 0}};
  EXPECT_EQ(tenants->front().sockets, sockets);
  EXPECT_EQ(tenants->front().quotas.communicators, 3u);
}

TEST_F(TenantsFileTest, TheKeyHoldsAfterARestartWithoutAController) {
  agent::v1::Tenants tenants = TeamA();  // as from a controller without certificates
  ASSERT_TRUE(Keep(tenants).ok());
  EXPECT_FALSE(Start()->has_id_key());
  tenants.set_id_key("key");
  ASSERT_TRUE(Keep(tenants).ok());
  const std::unique_ptr<Agent> agent = Start();
  EXPECT_TRUE(agent->has_id_key());
  EXPECT_EQ(agent->TakeIdKey(), "key");
}

TEST_F(TenantsFileTest, ADamagedFileIsReportedAndIgnored) {
  std::ofstream(path_) << "mccs-tenants 1 5\nx";
  EXPECT_FALSE(TenantsAtStart().has_value());
  EXPECT_TRUE(log_.Contains("is not a complete table of Tenants"));
}

// ---- Faults at each point of a write ------------------------------------------------------------

using Fault = FailingDisk::Fault;
using Death = FailingDisk::Death;

agent::v1::Tenants TeamB() {
  agent::v1::Tenants tenants = TeamA();
  tenants.mutable_tenants(0)->set_name("team-b");
  return tenants;
}

class TenantsFileFaults : public TenantsFileTest {
 protected:
  TenantsFileFaults() {
    EXPECT_TRUE(file_.Keep(TeamA()).ok());
    bytes_ = std::filesystem::file_size(path_);
  }
  // A write fails with this reason; the file has the table of before, and no draft is left.
  void ExpectRejected(const char* why) {
    EXPECT_THAT(file_.Keep(TeamB()).message(), HasSubstr(why));
    EXPECT_EQ(Kept(), TeamA().SerializeAsString());
    EXPECT_EQ(FilesInDirectory(), 1u) << "no draft";
  }

  FailingDisk disk_;
  TenantsFile file_{path_, &disk_};
  size_t bytes_ = 0;  // of the file with either table
};

TEST_F(TenantsFileFaults, ADiskThatIsFullAtAnyByteLeavesTheTableOfBefore) {
  for (size_t room = 0; room < bytes_; ++room) {
    SCOPED_TRACE(room);
    disk_.Fail(Fault::kFull, room);
    ExpectRejected("No space left on device");
  }
  disk_.Repair();
  EXPECT_TRUE(file_.Keep(TeamB()).ok());
  EXPECT_EQ(Kept(), TeamB().SerializeAsString());
}

TEST_F(TenantsFileFaults, AFailedSyncLeavesTheTableOfBefore) {
  disk_.Fail(Fault::kSyncFails);
  ExpectRejected("Input/output error");
  disk_.Repair();
  EXPECT_TRUE(file_.Keep(TeamB()).ok());
  EXPECT_EQ(Kept(), TeamB().SerializeAsString());
}

TEST_F(TenantsFileFaults, ADeathAtAnyPointLeavesTheOldOrTheNewTable) {
  for (uint64_t point = 0; point < FailingDisk::kDeaths; ++point) {
    const auto death = static_cast<Death>(point);
    for (size_t left = 0; left <= bytes_; ++left) {
      SCOPED_TRACE(testing::Message() << "at point " << point << ", with " << left << " bytes");
      ASSERT_TRUE(TenantsFile(path_, &disk_).Keep(TeamA()).ok());
      disk_.DieAt(death, left);
      EXPECT_FALSE(TenantsFile(path_, &disk_).Keep(TeamB()).ok());
      EXPECT_TRUE(disk_.dead());
      disk_.Restart();
      TenantsFile next(path_, &disk_);
      const auto found = next.Load();
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->tenants(0).name(), death == Death::kAfterRename ? "team-b" : "team-a");
      EXPECT_TRUE(next.Keep(TeamB()).ok());
      EXPECT_EQ(Kept(), TeamB().SerializeAsString());
      EXPECT_EQ(FilesInDirectory(), 1u) << "no draft";
    }
  }
}

}  // namespace tenants_file_test
}  // namespace mccs
