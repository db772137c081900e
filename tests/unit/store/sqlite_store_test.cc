#include "controller/store/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/unit/eventually.h"
#include "tests/unit/mentions.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace sqlite_store_test {

using testing::HasSubstr;

std::string WhyNot(const std::string& path, absl::StatusCode code) {
  const auto store = SqliteStore::Open(path);
  EXPECT_EQ(store.status().code(), code) << store.status();
  return std::string(store.status().message());
}

TEST(SqliteStore, SecondControllerGetsTheOwnersProcess) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store.db");
  auto first = SqliteStore::Open(path);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(WhyNot(path, absl::StatusCode::kAlreadyExists),
            absl::StrCat("the store ", path, " is in use by another mccs-controller (process ",
                         getpid(), "); stop that one, or choose another store (--store FILE)"));
  first->reset();
  EXPECT_TRUE(SqliteStore::Open(path).ok());
}

TEST(SqliteStore, SecondControllerFindsTheLockThroughALink) {
  const TemporaryDirectory directory, other_directory;
  const std::string path = directory.File("store.db"), link = other_directory.File("link.db");
  std::filesystem::create_symlink(path, link);
  for (const auto& [one, other] : {std::pair(path, link), std::pair(link, path)}) {
    auto first = SqliteStore::Open(one);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_THAT(WhyNot(other, absl::StatusCode::kAlreadyExists),
                HasSubstr("in use by another mccs-controller (process "));
  }
}

// At the first start, the file at the end of the links does not exist yet.
TEST(SqliteStore, SecondControllerFindsTheLockThroughADanglingLink) {
  for (const bool link_first : {true, false}) {
    const TemporaryDirectory directory, other_directory;
    const std::string path = directory.File("store.db"), link = other_directory.File("link.db");
    std::filesystem::create_symlink(path, directory.File("near.db"));
    std::filesystem::create_symlink("near.db", directory.File("nearer.db"));
    std::filesystem::create_symlink(directory.File("nearer.db"), link);
    const auto first = LockStore(link_first ? link : path);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(LockStore(link_first ? path : link).status().code(),
              absl::StatusCode::kAlreadyExists);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_TRUE(std::filesystem::exists(path + ".lock"));
  }
}

TEST(SqliteStore, RejectsALinkToItself) {
  const TemporaryDirectory directory;
  const std::string link = directory.File("loop.db");
  std::filesystem::create_symlink("loop.db", link);
  EXPECT_FALSE(SqliteStore::Open(link).ok());
}

TEST(SqliteStore, OnlyAHeldLockMeansAnotherController) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store.db"), file = path + ".lock";
  std::ofstream(file) << "4711\n";
  EXPECT_THAT(std::string(LockError(EWOULDBLOCK, path, file).message()),
              HasSubstr("in use by another mccs-controller (process 4711)"));
  const absl::Status no_locks = LockError(ENOLCK, path, file);
  EXPECT_NE(no_locks.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(no_locks.message()), HasSubstr("cannot lock " + file));
  EXPECT_THAT(std::string(no_locks.message()), HasSubstr("No locks available"));
}

TEST(SqliteStore, RejectsAStoreWithHardLinks) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store.db"), other = directory.File("other.db");
  ASSERT_TRUE(SqliteStore::Open(path).ok());
  std::filesystem::create_hard_link(path, other);
  for (const std::string& name : {path, other}) {
    EXPECT_THAT(WhyNot(name, absl::StatusCode::kFailedPrecondition),
                HasSubstr(name + " has 2 hard links"));
  }
  std::filesystem::remove(other);
  EXPECT_TRUE(SqliteStore::Open(path).ok());
}

TEST(SqliteStore, LockEndsWithAKilledProcess) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store.db");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto store = SqliteStore::Open(path);
    (void)!write(ready[1], store.ok() ? "y" : "n", 1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_FALSE(SqliteStore::Open(path).ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(SqliteStore::Open(path).ok());
}

TEST(SqliteStore, RejectsFilesOfOtherPrograms) {
  const TemporaryDirectory directory;
  const std::string text = directory.File("notes.txt");
  std::ofstream(text) << "this is long enough to be looked at, and it is no database at all\n";
  EXPECT_THAT(WhyNot(text, absl::StatusCode::kInternal), HasSubstr("file is not a database"));

  const std::string foreign = directory.File("foreign.db");
  ASSERT_TRUE((*SqliteDatabase::Open(foreign))->Execute("CREATE TABLE t (x)").ok());
  EXPECT_THAT(WhyNot(foreign, absl::StatusCode::kFailedPrecondition),
              HasSubstr("is a database of another program"));
}

TEST(SqliteStore, RejectsAnotherSchemaVersion) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store.db");
  ASSERT_TRUE(SqliteStore::Open(path).ok());
  const auto set_version = [&](int version) {
    ASSERT_TRUE((*SqliteDatabase::Open(path))
                    ->Execute(absl::StrCat("PRAGMA user_version = ", version))
                    .ok());
  };
  set_version(2);
  EXPECT_THAT(WhyNot(path, absl::StatusCode::kFailedPrecondition),
              Mentions("version 2", "supports 1"));
  set_version(1);
  EXPECT_TRUE(SqliteStore::Open(path).ok());
}

TEST(SqliteStore, UsersOfEarlierReleasesAreNotProven) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store.db");
  ASSERT_TRUE(SqliteStore::Open(path).ok());
  // As an earlier release made and used the table.
  const std::string insert =
      "INSERT INTO audit (time, peer, user, action, objects, outcome, revision) "
      "VALUES (1, 'peer', 'spiffe://mccs/operator/ann', 'apply', '', 'done', 0)";
  ASSERT_TRUE((*SqliteDatabase::Open(path))
                  ->Execute("ALTER TABLE audit DROP COLUMN user_proven; " + insert)
                  .ok());
  StoreChange change;
  change.audit.emplace_back().user_proven = true;
  ASSERT_TRUE((*SqliteStore::Open(path))->Commit(change).ok());
  // It can still write.
  ASSERT_TRUE((*SqliteDatabase::Open(path))->Execute(insert).ok());
  const auto entries = (*SqliteStore::Open(path))->Audit(10);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_FALSE((*entries)[0].user_proven);
  EXPECT_TRUE((*entries)[1].user_proven);
  EXPECT_FALSE((*entries)[2].user_proven);
}

TEST(SqliteStore, ReportsAMissingDirectory) {
  EXPECT_THAT(std::string(SqliteStore::Open("/no/such/store.db").status().message()),
              Mentions("/no/such/store.db", "/no/such/store.db.lock", "directory"));
}

constexpr int kObjects = 40;

// Commits states in which all objects have the same version, until the process is killed, and
// counts them in memory shared with the test.
[[noreturn]] void CommitForEver(const std::string& path, std::atomic<uint64_t>* commits) {
  auto store = SqliteStore::Open(path);
  if (!store.ok()) _exit(1);
  for (uint64_t revision = (*store)->Load()->revision + 1;; ++revision) {
    StoreChange change;
    change.revision = revision;
    for (int i = 0; i < kObjects; ++i) {
      change.put_objects.push_back(
          {"Tenant", absl::StrCat(i), revision, std::string(500, 'a' + revision % 26)});
    }
    change.put_strategies = {{CommId(1), absl::StrCat(revision)}};
    change.audit.push_back({0, 0, "", "", "apply", "", absl::StrCat(revision), revision});
    if (!(*store)->Commit(change).ok()) _exit(1);
    ++*commits;
  }
}

TEST(SqliteStore, KillAtAnyMomentLeavesAConsistentState) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  const TemporaryDirectory directory;
  const std::string path = directory.File("store.db");
  void* const shared = mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const commits = new (shared) std::atomic<uint64_t>(0);
  uint64_t before = 0;
  for (int round = 0; round < 12; ++round) {
    const uint64_t wanted = random() % 20;
    *commits = 0;
    const pid_t child = fork();
    if (child == 0) CommitForEver(path, commits);
    // The child may be anywhere in its next commit, or before its first one.
    ASSERT_TRUE(Eventually([&] { return *commits >= wanted; })) << "seed " << seed;
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "seed " << seed;

    auto store = SqliteStore::Open(path);
    ASSERT_TRUE(store.ok()) << store.status() << ", seed " << seed;
    const StoredState state = *(*store)->Load();
    ASSERT_GE(state.revision, before + wanted) << "seed " << seed;
    before = state.revision;
    if (state.revision == 0) continue;
    ASSERT_EQ(state.objects.size(), static_cast<size_t>(kObjects)) << "seed " << seed;
    for (const StoredObject& object : state.objects) {
      ASSERT_EQ(object.version, state.revision) << "seed " << seed;
    }
    ASSERT_EQ(state.strategies[0].record, absl::StrCat(state.revision)) << "seed " << seed;
    ASSERT_EQ((*(*store)->Audit(1))[0].outcome, absl::StrCat(state.revision)) << "seed " << seed;
  }
  munmap(shared, sizeof(std::atomic<uint64_t>));
  RecordProperty("seed", absl::StrCat(seed));
}

}  // namespace sqlite_store_test
}  // namespace mccs
