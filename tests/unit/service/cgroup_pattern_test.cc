#include "proto/cgroup_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace mccs {
namespace cgroup_pattern_test {

using testing::ElementsAre;
using testing::HasSubstr;

// The part of `path` that matches, and what the names stand for: "/a/pod7 7"; "": no match.
std::string Matched(const std::string& pattern, const std::string& path) {
  const auto match = MatchCgroup(pattern, path);
  if (!match.has_value()) return "";
  std::string text = path.substr(0, match->bytes);
  for (const std::string& capture : match->captures) text += " " + capture;
  return text;
}

TEST(CgroupPattern, AGroupIncludesThoseBelowIt) {
  EXPECT_EQ(Matched("/jobs/a", "/jobs/a"), "/jobs/a");
  EXPECT_EQ(Matched("/jobs/a", "/jobs/a/b"), "/jobs/a");
  EXPECT_EQ(Matched("/jobs/a/", "/jobs/a/b"), "/jobs/a");
  EXPECT_EQ(Matched("/jobs/a", "/jobs/ab"), "");
  EXPECT_EQ(Matched("/jobs/a", "/x/jobs/a"), "");
  EXPECT_EQ(Matched("/jobs/a", ""), "");
  EXPECT_EQ(Matched("/", "/x"), "/");
}

// Paths of kubelet's drivers cgroupfs and systemd.
TEST(CgroupPattern, MatchesPods) {
  EXPECT_EQ(Matched("/kubepods*/pod{uid}", "/kubepods/burstable/pod12-3/c4f"),
            "/kubepods/burstable/pod12-3 12-3");
  EXPECT_EQ(Matched("/kubepods*/pod{uid}", "/kubepods/pod12-3"), "/kubepods/pod12-3 12-3");
  EXPECT_EQ(Matched("/kubepods.slice/*-pod{uid}.slice",
                    "/kubepods.slice/kubepods-besteffort.slice/"
                    "kubepods-besteffort-pod1_2.slice/cri-containerd-7.scope"),
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice 1_2");
  EXPECT_EQ(Matched("/kubepods*/pod{uid}", "/system.slice/kubepods/pod1"), "");
}

TEST(CgroupPattern, MatchesJobsOfSlurm) {
  EXPECT_EQ(Matched("/system.slice/slurmstepd.scope/job_{job}",
                    "/system.slice/slurmstepd.scope/job_71/step_0/user/task_0"),
            "/system.slice/slurmstepd.scope/job_71 71");
  EXPECT_EQ(Matched("/slurm/uid_{uid}/job_{job}", "/slurm/uid_1000/job_7/step_0"),
            "/slurm/uid_1000/job_7 1000 7");
}

// A pod may create groups below its own.
TEST(CgroupPattern, AProcessCannotChooseWhatANameStandsFor) {
  EXPECT_EQ(Matched("/kubepods*/pod{uid}", "/kubepods/pod1/x/pod2"), "/kubepods/pod1 1");
  EXPECT_EQ(Matched("/kubepods*/pod{uid}", "/kubepods/pod1/pod2/pod3"), "/kubepods/pod1 1");
}

// A container may create groups below its own; the operator's guide has these patterns.
TEST(CgroupPattern, AContainerCannotBecomeAJobOfSlurm) {
  constexpr char kForged[] = "/system.slice/docker-abc.scope/slurmstepd.scope/job_77";
  EXPECT_EQ(Matched("/system.slice/slurmstepd.scope/job_{job}", kForged), "");
  EXPECT_EQ(Matched("/system.slice/{node}_slurmstepd.scope/job_{job}",
                    "/system.slice/docker-abc.scope/n1_slurmstepd.scope/job_77"),
            "");
  EXPECT_EQ(Matched("/system.slice/{node}_slurmstepd.scope/job_{job}",
                    "/system.slice/n1_slurmstepd.scope/job_71/step_0"),
            "/system.slice/n1_slurmstepd.scope/job_71 n1 71");
  EXPECT_NE(Matched("/system.slice/*slurmstepd.scope/job_{job}", kForged), "") << "as documented";
}

TEST(CgroupPattern, ANameStandsForOneCharacterOrMoreOfOnePart) {
  EXPECT_EQ(Matched("/a{x}", "/a"), "");
  EXPECT_EQ(Matched("/a{x}", "/a/b"), "");
  EXPECT_EQ(Matched("/a{x}b", "/a-bb"), "/a-bb -b");
  EXPECT_EQ(Matched("/{x}{y}", "/abc"), "/abc a bc");
  EXPECT_EQ(Matched("/*", "/"), "/");
}

// Paths are a tenant's text: matching must not take exponential time.
TEST(CgroupPattern, HostilePathsTakePolynomialTime) {
  std::string pattern = "/";
  for (size_t i = 0; i < kMaxCgroupWildcards; ++i) pattern += "*" + std::string(25, 'a');
  EXPECT_EQ(Matched(pattern + "b", "/" + std::string(4000, 'a')), "");
}

TEST(CgroupPattern, RejectsWhatIsNotAPattern) {
  for (const char* text : {"", "jobs", "/a/../b", "/a/./b", "/a//b"}) {
    EXPECT_THAT(WhyNotCgroupPattern(text), HasSubstr("absolute path")) << text;
  }
  EXPECT_THAT(WhyNotCgroupPattern("/a/"), HasSubstr("absolute path")) << "as /proc never shows it";
  for (const char* text : {"/{", "/}", "/{}", "/{A}", "/{a", "/{a{b}}", "/a}b{", "/{a/b}"}) {
    EXPECT_THAT(WhyNotCgroupPattern(text), HasSubstr("'{name}'")) << text;
  }
  // A table of another release may have them.
  for (const char* text : {"", "{", "*", "/{", "/}", "/{}", "/a{b", "{}{"}) MatchCgroup(text, "/a");
  EXPECT_THAT(WhyNotCgroupPattern("/{a}/{a}"), HasSubstr("once"));
  EXPECT_THAT(WhyNotCgroupPattern("/*/*/{a}/*/{b}"), HasSubstr("at most 4"));
  EXPECT_THAT(WhyNotCgroupPattern("/*" + std::string(kLongestCgroupPattern, 'a')),
              HasSubstr("at most 128"));
  EXPECT_EQ(WhyNotCgroupPattern("/" + std::string(kLongestCgroupPattern, 'a')), "");
}

TEST(CgroupPattern, FindsAPathOfTwoPatterns) {
  for (const auto& [one, other] : {std::pair{"/kubepods*/pod{uid}", "/kubepods/*/pod7"},
                                   {"/a/*", "/*/b"},
                                   {"/{x}", "/{y}"},
                                   {"/a/", "/a"},
                                   {"/*", "/a/b/c"}}) {
    const auto path = CommonCgroup(one, other);
    ASSERT_TRUE(path.has_value()) << one << " " << other;
    EXPECT_TRUE(MatchCgroup(one, *path).has_value()) << one << " " << *path;
    EXPECT_TRUE(MatchCgroup(other, *path).has_value()) << other << " " << *path;
  }
  for (const auto& [one, other] : {std::pair{"/kubepods*/pod{uid}", "/slurm*/job_{job}"},
                                   {"/a", "/ab"},
                                   {"/{x}", "/a/b"},
                                   {"/{x}a", "/{y}b"},
                                   {"/a*", "/b*"}}) {
    EXPECT_EQ(CommonCgroup(one, other), std::nullopt) << one << " " << other;
  }
}

// An operator may give 256 patterns, and each is compared with all others.
TEST(CgroupPattern, ComparesEachPlaceOfTwoPatternsOnce) {
  const std::string middle(100, 'x');
  const auto places = [](const std::string& one, const std::string& other) {
    size_t compared = 0;
    EXPECT_EQ(CommonCgroup(one, other, &compared), std::nullopt) << one << " " << other;
    return compared;
  };
  EXPECT_EQ(places("/*" + middle + "/yaz", "/*" + middle + "/ybz"), 0u) << "by their ends";
  EXPECT_EQ(places("/a" + middle + "*", "/b" + middle + "*"), 0u) << "by their beginnings";
  const size_t compared = places("/*" + middle + "a/{x}", "/*" + middle + "b/{y}");
  EXPECT_GT(compared, 0u);
  EXPECT_LE(compared, kLongestCgroupPattern * kLongestCgroupPattern);
}

// If two patterns match a path to the same depth, CommonCgroup has found a path of both.
TEST(CgroupPattern, NoPathMatchesTwoPatternsWithoutACommonOne) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  const auto text = [&](const std::vector<std::string>& parts) {
    std::string made = "/";
    for (size_t n = 1 + random() % 5; n > 0; --n) made += parts[random() % parts.size()];
    return made;
  };
  int equal = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string one = text({"a", "b", "*", "{x}", "a/b"});
    const std::string other = text({"a", "b", "*", "{y}", "b/a"});
    const std::string path = text({"a", "b", "a/b", "b/a"});
    const auto match = MatchCgroup(one, path), second = MatchCgroup(other, path);
    if (!match || !second || match->bytes != second->bytes) continue;
    ++equal;
    EXPECT_TRUE(CommonCgroup(one, other).has_value())
        << "seed " << seed << ": " << one << " " << other << " " << path;
  }
  EXPECT_GT(equal, 100);
}

}  // namespace cgroup_pattern_test
}  // namespace mccs
