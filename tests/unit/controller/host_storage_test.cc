#include "controller/state/host_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>

namespace mccs {
namespace host_storage_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr CommId kOne{1}, kTwo{2};

TEST(HostStorage, AHostLeadsABoundedNumberOfCommunicators) {
  HostStorage storage;
  for (uint64_t id = 1; id <= HostStorage::kMaxLed; ++id)
    ASSERT_TRUE(storage.SetAnnounce("h0", CommId(id), 100).ok());
  const CommId more(HostStorage::kMaxLed + 1);
  const absl::Status rejected = storage.SetAnnounce("h0", more, 100);
  EXPECT_TRUE(absl::IsResourceExhausted(rejected)) << rejected;
  EXPECT_THAT(rejected.message(), AllOf(HasSubstr("host h0"), HasSubstr("4096")));
  EXPECT_TRUE(storage.SetAnnounce("h0", kOne, 200).ok()) << "it is announced already";
  EXPECT_TRUE(storage.SetAnnounce("h1", more, 100).ok());
  storage.Remove(kOne);
  EXPECT_TRUE(storage.SetAnnounce("h0", CommId(HostStorage::kMaxLed + 2), 100).ok());
}

TEST(HostStorage, BoundsOneReport) {
  HostStorage storage;
  EXPECT_TRUE(storage.SetReport("h0", kOne, HostStorage::kMaxReportBytes).ok());
  const absl::Status rejected = storage.SetReport("h0", kTwo, HostStorage::kMaxReportBytes + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(rejected)) << rejected;
  EXPECT_THAT(rejected.message(), AllOf(HasSubstr("host h0"), HasSubstr("limit is 16777216")));
  EXPECT_EQ(storage.bytes("h0"), HostStorage::kMaxReportBytes);
}

TEST(HostStorage, BoundsWhatAHostStoresTogether) {
  HostStorage storage;
  constexpr size_t kLarge = HostStorage::kMaxHostBytes - HostStorage::kMaxReportBytes;
  ASSERT_TRUE(storage.SetAnnounce("h0", kOne, kLarge).ok());
  ASSERT_TRUE(storage.SetReport("h0", kOne, HostStorage::kMaxReportBytes).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(storage.SetReport("h0", kTwo, 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(storage.SetAnnounce("h0", kTwo, 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(storage.SetAnnounce("h0", kOne, kLarge + 1)));
  EXPECT_EQ(storage.bytes("h0"), HostStorage::kMaxHostBytes) << "nothing changed";
  EXPECT_TRUE(storage.SetReport("h1", kOne, 1).ok()) << "another host";
  EXPECT_TRUE(storage.SetReport("h0", kOne, HostStorage::kMaxReportBytes - 1).ok());
  EXPECT_TRUE(storage.SetReport("h0", kTwo, 1).ok());
}

TEST(HostStorage, SumsAgreeForRandomMessages) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    HostStorage storage;
    std::map<CommId, std::pair<std::string, size_t>> announced;
    std::map<std::pair<CommId, std::string>, size_t> reported;
    const auto remove_reports = [&](CommId id) {
      std::erase_if(reported, [&](const auto& entry) { return entry.first.first == id; });
    };
    for (int step = 0; step < 2000; ++step) {
      const CommId id(random() % 10);
      const std::string host = "h" + std::to_string(random() % 4);
      const size_t bytes = random() % 1000 + 1;
      switch (random() % 6) {
        case 0:
          if (announced.contains(id) && announced[id].first != host) break;
          ASSERT_TRUE(storage.SetAnnounce(host, id, bytes).ok());
          announced[id] = {host, bytes};
          break;
        case 1:
          storage.RemoveAnnounce(id);
          announced.erase(id);
          break;
        case 2:
          ASSERT_TRUE(storage.SetReport(host, id, bytes).ok());
          reported[{id, host}] = bytes;
          break;
        case 3:
          storage.RemoveReport(host, id);
          reported.erase({id, host});
          break;
        case 4:
          storage.RemoveReports(id);
          remove_reports(id);
          break;
        default:
          storage.Remove(id);
          announced.erase(id);
          remove_reports(id);
      }
      std::map<std::string, size_t> led, all;
      for (const auto& [of, entry] : announced) {
        ++led[entry.first];
        all[entry.first] += entry.second;
      }
      for (const auto& [of, size] : reported) all[of.second] += size;
      for (const char* each : {"h0", "h1", "h2", "h3"}) {
        ASSERT_EQ(storage.led(each), led[each]);
        ASSERT_EQ(storage.bytes(each), all[each]);
      }
    }
  }
}

}  // namespace host_storage_test
}  // namespace mccs
