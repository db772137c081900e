// The store on a disk that is full, that fails to sync, or whose controller dies in a write: a
// commit that fails changes nothing, and a restart finds the old or the new state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/store/sqlite_store.h"
#include "tests/unit/store/failing_files.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace store_faults_test {

using testing::HasSubstr;
using Fault = FailingFiles::Fault;

constexpr uint64_t kMostWrites = 10'000;  // of one commit
constexpr int kObjects = 5;

// A change of several tables, whose documents need several pages.
StoreChange Change(uint64_t revision, size_t document_bytes) {
  StoreChange change;
  change.revision = revision;
  for (int i = 0; i < kObjects; ++i) {
    change.put_objects.push_back(
        {.kind = "Tenant",
         .name = absl::StrCat("t", i),
         .version = revision,
         .document = std::string(document_bytes, static_cast<char>('a' + revision))});
  }
  change.put_strategies.push_back({CommId(7), absl::StrCat("strategy ", revision)});
  AuditEntry entry;
  entry.outcome = absl::StrCat("done ", revision);
  change.audit.push_back(entry);
  return change;
}

// The revision of a state that is entirely of one revision; nothing for a mixture.
std::optional<uint64_t> RevisionOf(Store& store, size_t document_bytes) {
  const auto loaded = store.Load();
  const auto audit = store.Audit(1);
  if (!loaded.ok() || !audit.ok() || audit->size() != 1) return std::nullopt;
  const StoreChange whole = Change(loaded->revision, document_bytes);
  const bool is_whole = loaded->objects == whole.put_objects &&
                        loaded->strategies == whole.put_strategies &&
                        audit->front().outcome == whole.audit.front().outcome;
  return is_whole ? std::optional(loaded->revision) : std::nullopt;
}

class StoreFaults : public testing::Test {
 protected:
  void Open(size_t document_bytes) {
    document_bytes_ = document_bytes;
    store_.reset();
    std::filesystem::remove_all(directory_.File("s"));
    std::filesystem::create_directory(directory_.File("s"));
    store_ = *SqliteStore::Open(path_);
    ASSERT_TRUE(store_->Commit(Change(1, document_bytes)).ok());
  }
  absl::Status CommitNext() { return store_->Commit(Change(2, document_bytes_)); }
  std::optional<uint64_t> Revision() { return RevisionOf(*store_, document_bytes_); }

  // The revision that the next controller finds in the files as they are now.
  std::optional<uint64_t> RevisionAfterDeath() {
    const std::string copy = directory_.File("copy");
    std::filesystem::remove_all(copy);
    std::filesystem::create_directory(copy);
    for (const char* suffix : {"", "-wal"}) {
      if (!std::filesystem::exists(path_ + suffix)) continue;
      std::filesystem::copy_file(path_ + suffix, copy + "/store.db" + suffix);
    }
    files_.Repair();
    const auto next = SqliteStore::Open(copy + "/store.db");
    EXPECT_TRUE(next.ok()) << next.status();
    return next.ok() ? RevisionOf(**next, document_bytes_) : std::nullopt;
  }

  // A commit fails at each of its writes or syncs in turn, and changes nothing. The next succeeds.
  void ExpectRejected(Fault fault, const char* why) {
    for (uint64_t writes = 0; writes < kMostWrites; ++writes) {
      SCOPED_TRACE(testing::Message() << "after " << writes << " writes");
      Open(/*document_bytes=*/3000);
      files_.FailAfter(fault, writes);
      const absl::Status commit = CommitNext();
      if (!files_.failed()) {
        EXPECT_TRUE(commit.ok()) << commit;
        EXPECT_GT(writes, 0u);
        return;
      }
      EXPECT_TRUE(absl::IsInternal(commit)) << commit;
      EXPECT_THAT(commit.message(), HasSubstr(why));
      EXPECT_THAT(commit.message(), HasSubstr(path_));
      EXPECT_EQ(Revision(), 1u);
      files_.Repair();
      EXPECT_TRUE(CommitNext().ok());
      EXPECT_EQ(Revision(), 2u);
      EXPECT_EQ(RevisionAfterDeath(), 2u);
    }
    ADD_FAILURE() << "the commit never succeeds";
  }

  FailingFiles files_;
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.File("s/store.db");
  size_t document_bytes_ = 0;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(StoreFaults, AFullDiskRejectsTheCommitAndChangesNothing) {
  ExpectRejected(Fault::kDiskFull, "the disk is full: delete files, or enlarge it");
}

TEST_F(StoreFaults, AFailedSyncRejectsTheCommitAndChangesNothing) {
  ExpectRejected(Fault::kSyncFails, "disk I/O error; check the disk and the kernel's log");
}

// The file may have the whole commit although it was rejected.
TEST_F(StoreFaults, AFailedSyncLeavesTheNextControllerTheOldOrTheNewState) {
  for (uint64_t syncs = 0; syncs < kMostWrites; ++syncs) {
    SCOPED_TRACE(testing::Message() << "after " << syncs << " syncs");
    Open(/*document_bytes=*/3000);
    files_.FailAfter(Fault::kSyncFails, syncs);
    const bool rejected = !CommitNext().ok();
    EXPECT_EQ(rejected, files_.failed());
    ASSERT_TRUE(RevisionAfterDeath().has_value()) << "a mixture";
    if (!rejected) return;
  }
  ADD_FAILURE() << "the commit never succeeds";
}

TEST_F(StoreFaults, ATornWriteLeavesTheOldOrTheNewState) {
  uint64_t writes = 0;
  for (; writes < kMostWrites; ++writes) {
    SCOPED_TRACE(testing::Message() << "after " << writes << " writes");
    Open(/*document_bytes=*/3000);
    files_.FailAfter(Fault::kTornWrite, writes);
    const absl::Status commit = CommitNext();
    const bool died = files_.failed();
    EXPECT_EQ(commit.ok(), !died) << commit;
    const auto revision = RevisionAfterDeath();
    ASSERT_TRUE(revision.has_value()) << "a mixture";
    EXPECT_TRUE(died || revision == 2u);
    if (!died) break;
  }
  EXPECT_GT(writes, 10u) << "the commit writes several pages";
}

// Documents that fill the write-ahead log, so that SQLite moves it to the database at once.
TEST_F(StoreFaults, ATornWriteOfACheckpointLosesNothing) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  constexpr size_t kLargeDocument = 1 << 20;
  Open(kLargeDocument);
  files_.FailAfter(Fault::kTornWrite, kMostWrites);
  ASSERT_TRUE(CommitNext().ok());
  int deaths_after_commit = 0;
  for (int i = 0; i < 30; ++i) {
    Open(kLargeDocument);
    files_.FailAfter(Fault::kTornWrite, random() % 4000);
    const absl::Status commit = CommitNext();
    deaths_after_commit += commit.ok() && files_.failed() ? 1 : 0;
    const auto revision = RevisionAfterDeath();
    ASSERT_TRUE(revision.has_value()) << "a mixture";
    EXPECT_TRUE(!commit.ok() || revision == 2u) << "a commit that succeeded was lost";
  }
  EXPECT_GT(deaths_after_commit, 0) << "no death in a checkpoint";
}

}  // namespace store_faults_test
}  // namespace mccs
