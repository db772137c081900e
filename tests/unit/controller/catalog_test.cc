#include "controller/state/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "controller/objects/cross_check.h"
#include "controller/store/memory_store.h"
#include "controller/store/sqlite_store.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace catalog_test {

using testing::HasSubstr;

// Forwards to a store; fails on request.
class FaultyStore final : public Store {
 public:
  absl::StatusOr<StoredState> Load() override { return inner_.Load(); }
  absl::Status Commit(const StoreChange& change) override {
    if (while_it_commits) while_it_commits();
    return fails ? absl::InternalError("the disk is full") : inner_.Commit(change);
  }
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) override {
    return inner_.Audit(limit);
  }
  bool fails = false;
  std::function<void()> while_it_commits;

 private:
  MemoryStore inner_;
};

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() { Restart(); }
  ~CatalogTest() override {
    for (std::thread& reader : readers_) reader.join();
  }
  void Restart() {
    catalog_.reset();
    auto opened = Catalog::Open(&store_, &clock_, log_.get());
    MCCS_CHECK(opened.ok());
    catalog_ = *std::move(opened);
  }
  absl::Status Apply(const std::string& text, bool dry_run = false) {
    return catalog_->Apply({{"a.yaml", text}}, kCaller, dry_run).status();
  }
  absl::Status Delete(const std::string& tenant, bool dry_run = false) {
    return catalog_->Delete({{ObjectKind::kTenant, tenant}}, {}, kCaller, dry_run).status();
  }
  AuditEntry LastAudit() {
    const auto entries = catalog_->Audit(1);
    return entries.ok() && !entries->empty() ? (*entries)[0] : AuditEntry();
  }
  size_t AuditSize() { return catalog_->Audit(1000)->size(); }

  const Caller kCaller{"ipv4:10.0.0.7:5000", "ann@login1", FirstOperator()};
  ManualWallClock clock_;
  FaultyStore store_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  std::unique_ptr<Catalog> catalog_;
  std::vector<std::thread> readers_;
};

TEST_F(CatalogTest, AppliedObjectsSurviveARestart) {
  ASSERT_TRUE(Apply(Together({TenantDocument("a", 1), TopologyDocument("t")})).ok());
  ASSERT_TRUE(Apply(TenantDocument("a", 1, "  weight: 3\n")).ok());
  Restart();
  EXPECT_EQ(catalog_->objects()->revision, 2u);
  EXPECT_EQ(catalog_->objects()->objects.size(), 2u);
  const Object* tenant = catalog_->objects()->Find({ObjectKind::kTenant, "a"});
  ASSERT_NE(tenant, nullptr);
  EXPECT_EQ(tenant->version, 2u);
  EXPECT_EQ(TenantOf(*tenant).weight, 3);
}

TEST_F(CatalogTest, ReadingObjectsDoesNotBlockOnChanges) {
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  std::vector<uint64_t> seen;
  // Reads the revision in another thread, with a timeout in case it blocks on the change.
  const auto look = [&] {
    auto other = std::make_shared<std::packaged_task<uint64_t()>>(
        [this] { return catalog_->objects()->revision; });
    std::future<uint64_t> revision = other->get_future();
    readers_.emplace_back([other] { (*other)(); });
    if (revision.wait_for(std::chrono::seconds(10)) == std::future_status::ready)
      seen.push_back(revision.get());
  };
  catalog_->SetAdmission([&](const ObjectSet&, const ObjectSet&) {
    look();
    return absl::OkStatus();
  });
  store_.while_it_commits = look;
  catalog_->Watch([&](const Catalog::Objects&) { look(); });
  ASSERT_TRUE(Apply(TenantDocument("b", 2)).ok());
  // At the first Watch, at the admission, at the commit, and afterwards.
  EXPECT_THAT(seen, testing::ElementsAre(1, 1, 1, 2));
}

TEST_F(CatalogTest, AViewersRequestIsRefusedWithoutPlanning) {
  int planned = 0;
  catalog_->SetAdmission([&](const ObjectSet&, const ObjectSet&) {
    ++planned;
    return absl::OkStatus();
  });
  const Caller viewer{"ipv4:10.0.0.8:5000", "eve@login1", {"eve", Role::kViewer, {}}};
  for (const bool dry_run : {true, false}) {
    // An error of the text would show that it was read.
    const absl::Status applied =
        catalog_->Apply({{"a.yaml", "nonsense"}}, viewer, dry_run).status();
    EXPECT_TRUE(absl::IsPermissionDenied(applied)) << applied;
    EXPECT_THAT(applied.message(), HasSubstr("operator eve is viewer"));
    EXPECT_TRUE(absl::IsPermissionDenied(
        catalog_->Delete({{ObjectKind::kTenant, "unknown"}}, {}, viewer, dry_run).status()));
  }
  EXPECT_EQ(planned, 0);
  EXPECT_EQ(AuditSize(), 2u) << "dry runs have no entry";
}

TEST_F(CatalogTest, AuditEntriesDoNotWaitForAPlan) {
  std::vector<std::future<void>> written;
  catalog_->SetAdmission([&](const ObjectSet&, const ObjectSet&) {
    written.push_back(std::async(std::launch::async, [&] {
      catalog_->AuditEvents({{"replan", "communicator 7", "proposed: host h1 lost"}});
    }));
    EXPECT_EQ(written.back().wait_for(std::chrono::seconds(10)), std::future_status::ready);
    return absl::OkStatus();
  });
  ASSERT_TRUE(Apply(TenantDocument("a", 1), /*dry_run=*/true).ok());
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  EXPECT_EQ(AuditSize(), 3u);
}

TEST_F(CatalogTest, ADryRunDoesNotWaitForAChange) {
  std::vector<std::future<absl::Status>> runs;
  store_.while_it_commits = [&] {
    runs.push_back(std::async(std::launch::async,
                              [&] { return Apply(TenantDocument("b", 2), /*dry_run=*/true); }));
    EXPECT_EQ(runs.back().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  };
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  store_.while_it_commits = nullptr;
  EXPECT_TRUE(runs.at(0).get().ok());
}

// Plans read a snapshot, which another change may replace meanwhile.
TEST_F(CatalogTest, AChangeDuringAPlanIsPartOfTheResult) {
  int planned = 0;
  catalog_->SetAdmission([&](const ObjectSet&, const ObjectSet&) {
    if (++planned == 1) {
      EXPECT_TRUE(Apply(TenantDocument("b", 2)).ok());
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  EXPECT_EQ(planned, 3) << "a, b, and a again";
  EXPECT_EQ(catalog_->objects()->revision, 2u);
  EXPECT_EQ(catalog_->objects()->objects.size(), 2u);
}

TEST_F(CatalogTest, AChangeDuringAPlanOfTheSameObjectIsAConflict) {
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  int planned = 0;
  catalog_->SetAdmission([&](const ObjectSet&, const ObjectSet&) {
    if (++planned == 1) {
      EXPECT_TRUE(Apply(TenantDocument("a", 1, "  weight: 3\n")).ok());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsAborted(Apply(Document("Tenant", "a", "  selector: {uids: [7]}\n", 1))));
  EXPECT_EQ(TenantOf(*catalog_->objects()->Find({ObjectKind::kTenant, "a"})).weight, 3);
}

TEST_F(CatalogTest, AuditEntriesHaveCallerActionTimeAndOutcome) {
  ASSERT_TRUE(Apply(Together({TenantDocument("a", 1), TenantDocument("b", 2)})).ok());
  EXPECT_EQ(LastAudit(), (AuditEntry{1, clock_.now, "ipv4:10.0.0.7:5000", "ann@login1", "apply",
                                     "created Tenant 'a'; created Tenant 'b'", "done", 1}));
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  EXPECT_EQ(LastAudit().outcome, "nothing to do");
  EXPECT_EQ(LastAudit().revision, 1u);
  EXPECT_FALSE(Delete("c").ok());
  EXPECT_EQ(LastAudit().outcome, "rejected: unknown Tenant 'c'");
  ASSERT_TRUE(Delete("b").ok());
  EXPECT_EQ(LastAudit().objects, "deleted Tenant 'b'");
  EXPECT_EQ(AuditSize(), 4u);
}

TEST_F(CatalogTest, AFloodOfRejectionsPushesNothingOutOfTheAuditLog) {
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(Delete("c").ok());
  EXPECT_EQ(AuditSize(), static_cast<size_t>(RejectionLimits::kBurst));
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  EXPECT_EQ(LastAudit().outcome, "done");
  clock_.now += RejectionLimits::kIntervalNs;
  EXPECT_FALSE(Delete("c").ok());
  EXPECT_EQ(LastAudit().outcome,
            "rejected: unknown Tenant 'c' (480 of this user before it are not listed)");
}

TEST_F(CatalogTest, AuditsRejectionsAndControllerEvents) {
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  catalog_->AuditRejection("drain", kCaller, absl::NotFoundError("unknown link 'x'"));
  EXPECT_EQ(LastAudit(), (AuditEntry{2, clock_.now, "ipv4:10.0.0.7:5000", "ann@login1", "drain", "",
                                     "rejected: unknown link 'x'", 1}));
  catalog_->AuditEvents({{"reject-daemon", "host 'h1'", "rejected: its clock"},
                         {"replan", "communicator 7: other ports", "proposed: host h1 lost"}});
  EXPECT_EQ(LastAudit(), (AuditEntry{4, clock_.now, "mccs-controller", "", "replan",
                                     "communicator 7: other ports", "proposed: host h1 lost", 1}));
  catalog_->AuditEvents({});
  EXPECT_EQ(AuditSize(), 4u);
  store_.fails = true;
  catalog_->AuditRejection("undrain", kCaller, absl::NotFoundError("x"));
  store_.fails = false;
  EXPECT_EQ(AuditSize(), 4u);
  ASSERT_TRUE(Apply(TenantDocument("b", 2)).ok());
}

// Entries are sent to operators as protobuf strings, which must be UTF-8.
TEST_F(CatalogTest, TruncatesLongTextsBetweenCharacters) {
  const auto arrows = [](size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += "\u2192";  // three bytes
    return text;
  };
  const auto fits = [](const std::string& text, size_t most) {
    EXPECT_LE(text.size(), most);
    EXPECT_GT(text.size(), most - 3);
    EXPECT_TRUE(text.ends_with("\u2192")) << text.size();
  };
  for (const char* shift : {"", "x", "xy"}) {
    catalog_->AuditRejection("drain", {shift + arrows(300), shift + arrows(300)},
                             absl::NotFoundError(shift + arrows(2000)));
    fits(LastAudit().peer, 200);
    fits(LastAudit().user, 200);
    fits(LastAudit().outcome, 1000);
    catalog_->AuditEvents({{"replan", shift + arrows(2000), shift + arrows(2000)}});
    fits(LastAudit().objects, 1000);
    fits(LastAudit().outcome, 1000);
  }
}

TEST_F(CatalogTest, DryRunChangesNothingAndIsNotAudited) {
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  EXPECT_TRUE(Apply(TenantDocument("b", 2), /*dry_run=*/true).ok());
  EXPECT_TRUE(Delete("a", /*dry_run=*/true).ok());
  EXPECT_FALSE(Apply("nonsense", /*dry_run=*/true).ok());
  EXPECT_EQ(AuditSize(), 1u);
  EXPECT_EQ(catalog_->objects()->objects.size(), 1u);
}

TEST_F(CatalogTest, ChangeWithAFailedCommitIsNotApplied) {
  ASSERT_TRUE(Apply(TenantDocument("a", 1)).ok());
  int notified = 0;
  catalog_->Watch([&](const Catalog::Objects&) { ++notified; });
  store_.fails = true;
  EXPECT_EQ(Apply(TenantDocument("b", 2)).message(), "the disk is full");
  EXPECT_FALSE(Apply("nonsense").ok()) << "a rejection that cannot be logged is a rejection";
  EXPECT_EQ(catalog_->objects()->objects.size(), 1u);
  EXPECT_EQ(notified, 1) << "of what was there";
  store_.fails = false;
  ASSERT_TRUE(Apply(TenantDocument("b", 2)).ok());
  EXPECT_EQ(notified, 2);
  EXPECT_EQ(catalog_->objects()->revision, 2u);
}

TEST_F(CatalogTest, RejectsAStoreOfAnotherRelease) {
  StoreChange change;
  change.revision = 1;
  change.put_objects = {{"Tenant", "a", 1, Document("Tenant", "a", "  colour: red\n")}};
  ASSERT_TRUE(store_.Commit(change).ok());
  const auto opened = Catalog::Open(&store_, &clock_, log_.get());
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(opened.status().message(),
              HasSubstr("stored Tenant a:6:3: Tenant 'a': unknown key 'colour'"));
}

// A model of the stored documents, by key.
using Model = std::map<ObjectKey, std::string>;

class RandomOperator {
 public:
  explicit RandomOperator(uint64_t seed) : random_(seed) {}

  size_t Below(size_t n) { return random_() % n; }

  // One to three documents, some of them inconsistent with the others.
  std::string Documents() {
    std::vector<std::string> documents;
    for (size_t n = 1 + Below(3); n > 0; --n) documents.push_back(One());
    return Together(documents);
  }

  std::vector<ObjectKey> Keys(const Model& model) {
    std::vector<ObjectKey> keys;
    for (const auto& [key, document] : model) {
      if (Below(4) == 0) keys.push_back(key);
    }
    if (keys.empty()) keys.push_back({ObjectKind::kTenant, Name()});
    return keys;
  }

 private:
  std::string Name() { return std::string(1, static_cast<char>('a' + Below(5))); }

  std::string One() {
    const std::string name = Name();
    switch (Below(4)) {
      case 0:
        return TopologyDocument(absl::StrCat("t", Below(2)), absl::StrCat("h", Below(3)));
      case 1:
        return PolicyDocument(
            name, absl::StrCat("  type: locality_ring\n  parameters: {order: [h", Below(3),
                               "]}\n  selector: {tenants: [", Name(), "]}\n"));
      default:
        return TenantDocument(
            name, static_cast<uint32_t>(Below(8)),
            absl::StrCat("  guarantee: ", 1 + Below(4), "Gbps\n  cap: ", 2 + Below(4), "Gbps\n"));
    }
  }

  std::mt19937_64 random_;
};

void ExpectEqual(const ObjectSet& set, const Model& model, const std::string& where) {
  ASSERT_EQ(set.objects.size(), model.size()) << where;
  for (const auto& [key, document] : model) {
    const Object* object = set.Find(key);
    ASSERT_NE(object, nullptr) << where << ": " << ToText(key);
    EXPECT_EQ(DocumentOf(*object, false), document) << where;
    EXPECT_LE(object->version, set.revision) << where;
  }
  EXPECT_TRUE(CheckObjects(set).empty()) << where;
}

// Applies and deletes at random, with restarts; rejected changes have no effect.
void RunAgainstModel(uint64_t seed, bool on_disk) {
  RandomOperator operators(seed);
  ManualWallClock clock;
  const std::unique_ptr<Log> log = MakeNullLog();
  const TemporaryDirectory directory;
  const Caller caller{"test", "test", FirstOperator()};
  std::unique_ptr<Store> store = std::make_unique<MemoryStore>();
  std::unique_ptr<Catalog> catalog;
  Model model;
  uint64_t revision = 0;
  size_t calls = 0;
  const auto restart = [&] {
    catalog.reset();
    if (on_disk) {
      store.reset();  // Releases its lock first.
      auto opened = SqliteStore::Open(directory.File("store.db"));
      ASSERT_TRUE(opened.ok()) << opened.status();
      store = *std::move(opened);
    }
    auto read = Catalog::Open(store.get(), &clock, log.get());
    ASSERT_TRUE(read.ok()) << read.status();
    catalog = *std::move(read);
  };
  restart();
  for (int step = 0; step < 60; ++step) {
    const std::string where = absl::StrCat("seed ", seed, ", step ", step);
    clock.now += RejectionLimits::kIntervalNs;  // Each rejection is listed.
    if (operators.Below(6) == 0) restart();
    const bool dry_run = operators.Below(8) == 0;
    const bool deletes = operators.Below(4) == 0;
    const auto outcome = deletes
                             ? catalog->Delete(operators.Keys(model), {}, caller, dry_run)
                             : catalog->Apply({{"a.yaml", operators.Documents()}}, caller, dry_run);
    calls += !dry_run;
    if (outcome.ok() && !dry_run) {
      revision += !outcome->plan.IsNothing();
      for (const ObjectChange& change : outcome->plan.changes) {
        if (change.kind == ChangeKind::kDeleted) {
          model.erase(change.key);
        } else {
          model[change.key] = change.after;
        }
      }
    }
    ExpectEqual(*catalog->objects(), model, where);
    ASSERT_EQ(catalog->objects()->revision, revision) << where;
    ASSERT_EQ(catalog->Audit(1000)->size(), calls) << where;
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CatalogProperty, StoreEqualsAModelAfterRandomChangesAndRestarts) {
  const uint64_t first = std::random_device()();
  std::cout << "seeds from " << first << "\n";
  for (uint64_t seed = first; seed < first + 40 && !HasFailure(); ++seed) {
    // Commits to a disk are slow, so few seeds use one.
    RunAgainstModel(seed, /*on_disk=*/seed < first + 2);
  }
}

}  // namespace catalog_test
}  // namespace mccs
