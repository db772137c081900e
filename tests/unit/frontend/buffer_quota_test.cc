#include "service/frontend/buffer_quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mccs {
namespace buffer_quota_test {

using testing::HasSubstr;
using Shares = std::vector<std::unique_ptr<BufferShare>>;

absl::Status Take(BufferQuota& quota, const std::string& tenant, Shares& shares,
                  uint64_t bytes = 1) {
  auto share = quota.Take(tenant);
  if (!share.ok()) return share.status();
  absl::Status status = (*share)->SetBytes(bytes);
  if (status.ok()) shares.push_back(*std::move(share));
  return status;
}

TEST(BufferQuota, ATenantAtItsLimitAffectsNoOther) {
  BufferQuota quota({.buffers_per_tenant = 3});
  Shares blue, red;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Take(quota, "blue", blue).ok());
  const absl::Status rejected = Take(quota, "blue", blue);
  EXPECT_TRUE(absl::IsResourceExhausted(rejected));
  EXPECT_THAT(rejected.message(), HasSubstr("tenant blue has registered 3 "));
  EXPECT_THAT(rejected.message(), HasSubstr("limits.buffers_per_tenant"));
  EXPECT_TRUE(Take(quota, "red", red).ok());
  blue.pop_back();
  EXPECT_TRUE(Take(quota, "blue", blue).ok());
}

TEST(BufferQuota, BytesAreLimitedPerTenantToo) {
  BufferQuota quota({.mapped_bytes_per_tenant = 1000});
  Shares blue, red;
  ASSERT_TRUE(Take(quota, "blue", blue, 600).ok());
  for (uint64_t bytes : {uint64_t{401}, ~uint64_t{0}}) {
    const absl::Status rejected = Take(quota, "blue", blue, bytes);
    EXPECT_TRUE(absl::IsResourceExhausted(rejected)) << bytes;
    EXPECT_THAT(rejected.message(), HasSubstr("limits.mapped_bytes_per_tenant"));
  }
  EXPECT_TRUE(Take(quota, "blue", blue, 400).ok());
  EXPECT_TRUE(Take(quota, "red", red, 1000).ok());
  blue.clear();
  EXPECT_TRUE(Take(quota, "blue", blue, 1000).ok());
}

TEST(BufferQuota, AllTenantsTogetherStayBelowWhatTheKernelMaps) {
  HostLimits limits;
  limits[Resource::kMappings] = 100;
  HostBudget budget(limits);
  BufferQuota quota({});
  Shares shares;
  const auto take_all = [&](const std::string& tenant) {
    const auto resources = budget.Of(tenant, "", std::make_shared<TenantCounters>());
    for (;;) {
      auto share = quota.Take(tenant, nullptr, resources);
      if (!share.ok()) return share.status();
      shares.push_back(*std::move(share));
    }
  };
  for (const char* tenant : {"blue", "red", "green"}) {
    EXPECT_THAT(take_all(tenant).message(), HasSubstr("too many memory mappings on this host"));
    EXPECT_LT(budget.held(Resource::kMappings), 100u) << "some are left for the next tenant";
  }
  shares.clear();
  EXPECT_EQ(budget.held(Resource::kMappings), 0u);
}

TEST(BufferQuota, AllTenantsTogetherLeaveAddressSpaceFree) {
  HostLimits limits;
  limits[Resource::kMappedBytes] = 1000;
  HostBudget budget(limits);
  BufferQuota quota({});
  Shares shares;
  const auto take = [&](const std::string& tenant, uint64_t bytes) -> absl::Status {
    auto share =
        quota.Take(tenant, nullptr, budget.Of(tenant, "", std::make_shared<TenantCounters>()));
    if (!share.ok()) return share.status();
    absl::Status status = (*share)->SetBytes(bytes);
    if (status.ok()) shares.push_back(*std::move(share));
    return status;
  };
  EXPECT_TRUE(take("blue", 500).ok());
  const absl::Status refused = take("blue", 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(),
              HasSubstr("too much address space of buffers on this host: tenant blue has 500 B"));
  EXPECT_THAT(refused.message(), HasSubstr("limits.mapped_bytes in mccsd's configuration"));
  EXPECT_TRUE(take("red", 250).ok());
  EXPECT_FALSE(take("red", 1).ok());
  EXPECT_EQ(budget.held(Resource::kMappedBytes), 750u) << "a refused buffer holds nothing";
  shares.clear();
  EXPECT_EQ(budget.held(Resource::kMappedBytes), 0u);
}

TEST(BufferQuota, AShareMayOutliveTheQuota) {
  DaemonCounters counters;
  auto quota = std::make_unique<BufferQuota>(BufferLimits{.mapped_bytes_per_tenant = 5}, &counters);
  auto share = *quota->Take("blue");
  quota.reset();
  const auto blue = counters.Of("blue");
  EXPECT_EQ(blue->buffers.value(), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(share->SetBytes(6))) << "the limits still apply";
  EXPECT_TRUE(share->SetBytes(5).ok());
  EXPECT_EQ(blue->buffer_bytes.value(), 5);
  share.reset();
  EXPECT_EQ(blue->buffers.value(), 0);
  EXPECT_EQ(blue->buffer_bytes.value(), 0);
}

}  // namespace buffer_quota_test
}  // namespace mccs
