#include "service/communicator/membership/id_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/sim/sim_tenant.h"

namespace mccs {
namespace id_keys_test {

using testing::HasSubstr;

const std::string kKey(32, 'k'), kOther(32, 'o'), kOwn(32, 'w');

class IdKeysTest : public testing::Test {
 protected:
  static IdKeys With(const std::string& key) {
    IdKeys keys;
    keys.Set(key, 0);
    return keys;
  }
  wire::UniqueId Signed(const IdKeys& keys, MonotonicNs now = 0) const {
    wire::UniqueId id = id_;
    keys.Sign(&id, now);
    return id;
  }

  const wire::UniqueId id_ = MakeUniqueId("10.0.0.7", 7400, 42);
};

TEST_F(IdKeysTest, TakesWhatItHasSigned) {
  const IdKeys keys = With(kKey);
  EXPECT_TRUE(keys.Check(Signed(keys)).ok());
  const absl::Status unsigned_id = keys.Check(id_);
  EXPECT_TRUE(absl::IsPermissionDenied(unsigned_id)) << unsigned_id;
  EXPECT_THAT(std::string(unsigned_id.message()), HasSubstr("10.0.0.7 port 7400"));
}

TEST_F(IdKeysTest, RejectsAChangeOfAnyByte) {
  const IdKeys keys = With(kKey);
  const wire::UniqueId right = Signed(keys);
  for (size_t i = 0; i < sizeof(right); ++i) {
    wire::UniqueId changed = right;
    reinterpret_cast<uint8_t*>(&changed)[i] ^= 1;
    EXPECT_FALSE(keys.Check(changed).ok()) << "byte " << i;
  }
}

TEST_F(IdKeysTest, RejectsTheSignatureOfAnotherCluster) {
  EXPECT_FALSE(With(kKey).Check(Signed(With(kOther))).ok());
}

TEST_F(IdKeysTest, WithoutAKeyEveryIdIsRight) {
  const IdKeys none;
  EXPECT_TRUE(none.Check(id_).ok());
  EXPECT_TRUE(none.Check(Signed(With(kKey))).ok());
  EXPECT_TRUE(SameId(Signed(none), id_));
}

TEST_F(IdKeysTest, UntilTheKeyArrivesOnlyItsOwnIdsAreRight) {
  const IdKeys keys(kOwn);
  EXPECT_TRUE(keys.Check(Signed(keys)).ok());
  wire::UniqueId forged = Signed(keys);
  ++forged.port;
  for (const wire::UniqueId& id : {id_, forged, Signed(With(kKey)), Signed(IdKeys(kOther))}) {
    const absl::Status status = keys.Check(id);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the controller has not sent it yet"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("repeat the call"));
  }
  wire::UniqueId named = id_;
  EXPECT_TRUE(absl::IsUnavailable(keys.Name(&named, "blue")));
  EXPECT_FALSE(With(kKey).Check(Signed(keys)).ok()) << "no other daemon knows its own key";
}

TEST_F(IdKeysTest, TheKeyReplacesItsOwnAtOnce) {
  IdKeys keys(kOwn);
  const wire::UniqueId before = Signed(keys);
  keys.Set("", 0);
  EXPECT_TRUE(absl::IsUnavailable(keys.Check(id_)));
  keys.Set(kKey, kNsPerSec);
  const IdKeys others = With(kKey);
  EXPECT_TRUE(others.Check(Signed(keys, kNsPerSec)).ok());
  EXPECT_TRUE(keys.Check(Signed(others)).ok());
  EXPECT_TRUE(keys.Check(before).ok()) << "of a job that is starting";
  EXPECT_TRUE(absl::IsPermissionDenied(keys.Check(id_)));
  wire::UniqueId here = id_, elsewhere = id_;
  EXPECT_TRUE(keys.Name(&here, "blue").ok() && others.Name(&elsewhere, "blue").ok());
  EXPECT_TRUE(SameId(here, elsewhere));
}

// Daemons get a new key at different times.
TEST_F(IdKeysTest, ANewKeyIsUsedWhenAllHaveIt) {
  IdKeys early = With(kKey);
  const IdKeys late = With(kKey);
  const MonotonicNs changed = kNsPerSec;
  early.Set(kOther, changed);
  early.Set("", changed + 1);
  EXPECT_TRUE(early.Check(Signed(late)).ok());
  EXPECT_TRUE(late.Check(Signed(early, changed)).ok());
  const wire::UniqueId after = Signed(early, changed + IdKeys::kNewKeyAfterNs);
  EXPECT_TRUE(With(kOther).Check(after).ok());
  EXPECT_TRUE(early.Check(after).ok());
  early.Set(std::string(32, 'n'), changed + 2 * IdKeys::kNewKeyAfterNs);
  EXPECT_FALSE(early.Check(Signed(late)).ok()) << "two keys are kept";
}

TEST_F(IdKeysTest, ANameBelongsToItsTenantAndHasNoAddress) {
  const auto named = [](const IdKeys& keys, const std::string& address, uint64_t number,
                        const std::string& tenant) {
    wire::UniqueId id = MakeUniqueId(address, 5000, number);
    EXPECT_TRUE(keys.Name(&id, tenant).ok());
    return id;
  };
  const IdKeys keys = With(kKey);
  const wire::UniqueId id = named(keys, "10.0.0.7", 42, "blue");
  EXPECT_TRUE(IsNamed(id));
  EXPECT_STREQ(id.host, "");
  EXPECT_TRUE(SameId(id, named(keys, "127.0.1.1", 42, "blue"))) << "as another host resolves it";
  for (const wire::UniqueId& other :
       {named(keys, "10.0.0.7", 42, "red"), named(keys, "10.0.0.7", 43, "blue"),
        named(With(kOther), "10.0.0.7", 42, "blue")}) {
    EXPECT_NE(other.comm_id, id.comm_id);
    EXPECT_NE(std::memcmp(other.secret, id.secret, sizeof(id.secret)), 0);
  }
  EXPECT_TRUE(SameId(named(IdKeys(), "10.0.0.7", 42, "blue"), MakeUniqueId("10.0.0.7", 5000, 42)));
}

TEST_F(IdKeysTest, TheKeyDoesNotMakeAnotherId) {
  EXPECT_TRUE(SameId(Signed(With(kKey)), Signed(With(kOther))));
  EXPECT_FALSE(SameId(id_, MakeUniqueId("10.0.0.7", 7400, 43)));
}

}  // namespace id_keys_test
}  // namespace mccs
