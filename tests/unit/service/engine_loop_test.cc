// The engine's waiting rules, with a daemon, a reactor and a clock of the test.
#include "service/engine_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

namespace mccs {
namespace engine_loop_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kTurnNs = 100;
constexpr int64_t kNoLimit = -1;  // of Reactor::Wait

// An action of the loop, and its time.
struct Event {
  enum class Kind { kTurn, kYield, kPrepareSleep, kWait, kEndSleep };
  Kind kind;
  MonotonicNs at = 0;
  int64_t timeout_ns = 0;  // of a kWait
  bool woken = false;      // of a kTurn

  friend std::ostream& operator<<(std::ostream& out, const Event& event) {
    constexpr const char* kNames[] = {"turn", "yield", "prepare", "wait", "end"};
    return out << kNames[static_cast<int>(event.kind)] << "@" << event.at << "/"
               << event.timeout_ns;
  }
};
using Kind = Event::Kind;

// The world around the loop. Turns, yields and waits take time; `on_event` runs at each step, where
// tenants may act.
struct World final : Clock {
  MonotonicNs Now() const override { return now; }
  void Add(Event event) {
    event.at = now;
    events.push_back(event);
    if (on_event) on_event(event);
  }
  std::vector<Event> Of(Kind kind) const {
    std::vector<Event> found;
    for (const Event& event : events)
      if (event.kind == kind) found.push_back(event);
    return found;
  }
  std::vector<int64_t> Timeouts() const {
    std::vector<int64_t> timeouts;
    for (const Event& event : Of(Kind::kWait)) timeouts.push_back(event.timeout_ns);
    return timeouts;
  }

  MonotonicNs now = 5 * kNsPerSec;
  std::vector<Event> events;
  std::function<void(const Event&)> on_event;
  Readiness stop;
};
World* world_of_yield = nullptr;

struct FakeDaemon {
  bool Poll(bool woken) {
    world.now += kTurnNs;
    world.Add({.kind = Kind::kTurn, .woken = woken});
    return poll && poll();
  }
  Urgency urgency() const { return level; }
  MonotonicNs NextDeadline() const { return deadline; }
  bool PrepareSleep() {
    world.Add({.kind = Kind::kPrepareSleep});
    return has_work && has_work();
  }
  void EndSleep() { world.Add({.kind = Kind::kEndSleep}); }
  std::shared_ptr<DaemonCounters> counters() const { return numbers; }

  World& world;
  Urgency level = Urgency::kSleep;
  MonotonicNs deadline = kNever;
  std::function<bool()> poll;      // unset: never progress
  std::function<bool()> has_work;  // unset: never
  std::shared_ptr<DaemonCounters> numbers = std::make_shared<DaemonCounters>();
};

struct FakeReactor {
  int Wait(int64_t timeout_ns) {
    world.Add({.kind = Kind::kWait, .timeout_ns = timeout_ns});
    if (const int ready = wait ? wait(timeout_ns) : 0; ready > 0) return ready;
    if (timeout_ns == kNoLimit) {
      world.stop.readable = true;  // A test that waits for nothing has ended.
    } else {
      world.now += timeout_ns;
    }
    return 0;
  }

  World& world;
  std::function<int(int64_t)> wait;  // unset: nothing arrives
};

class EngineLoopTest : public testing::Test {
 protected:
  EngineLoopTest() { world_of_yield = &world_; }

  // Runs the loop for `ns` of the test's time, or until it would sleep forever.
  void Run(int64_t ns) {
    const MonotonicNs end = world_.now + ns;
    const auto act = std::exchange(world_.on_event, nullptr);
    world_.on_event = [&, act](const Event& event) {
      if (world_.now >= end) world_.stop.readable = true;
      if (act) act(event);
    };
    world_.stop.readable = false;
    EngineLoop(daemon_, reactor_, world_, &Yield).Run(world_.stop);
    world_.on_event = act;
  }
  static void Yield() {
    world_of_yield->Add({.kind = Kind::kYield});
    world_of_yield->now += 100;
  }

  World world_;
  FakeDaemon daemon_{.world = world_, .poll = {}, .has_work = {}};
  FakeReactor reactor_{.world = world_, .wait = {}};
  const MonotonicNs start_ = world_.now;
};

// ---- When it waits, and for how long -----

TEST_F(EngineLoopTest, DoesNotPauseWhileTurnsMakeProgress) {
  for (const Urgency urgency : {Urgency::kSleep, Urgency::kBackOff, Urgency::kSpin}) {
    daemon_.level = urgency;
    daemon_.poll = [] { return true; };
    Run(10 * kNsPerMs);
  }
  EXPECT_GE(world_.Of(Kind::kTurn).size(), 300'000u);
  EXPECT_EQ(world_.events.size(), world_.Of(Kind::kTurn).size()) << "nothing but turns";
}

TEST_F(EngineLoopTest, TurnsWithoutAPauseShortlyAfterProgress) {
  for (const Urgency urgency : {Urgency::kSleep, Urgency::kBackOff, Urgency::kSpin}) {
    world_.events.clear();
    daemon_.level = urgency;
    Run(kSpinNs - kTurnNs);
    EXPECT_EQ(world_.Of(Kind::kTurn).size(), kSpinNs / kTurnNs - 1);
    EXPECT_THAT(world_.Of(Kind::kYield), IsEmpty());
    EXPECT_THAT(world_.Of(Kind::kWait), IsEmpty());
  }
}

TEST_F(EngineLoopTest, YieldsBetweenTurnsBeforeItsFirstSleep) {
  const std::pair<Urgency, int64_t> cases[] = {{Urgency::kSleep, kLingerNs},
                                               {Urgency::kBackOff, kBackOffAfterNs},
                                               {Urgency::kSpin, kYieldNs}};
  for (const auto& [urgency, yields_for_ns] : cases) {
    world_.events.clear();
    daemon_.level = urgency;
    const MonotonicNs begin = world_.now;
    Run(yields_for_ns + kTurnNs);
    const std::vector<Event> yields = world_.Of(Kind::kYield);
    ASSERT_FALSE(yields.empty());
    EXPECT_EQ(yields.front().at - begin, kSpinNs);
    EXPECT_LT(yields.back().at - begin, yields_for_ns);
    const std::vector<Event> waits = world_.Of(Kind::kWait);
    ASSERT_FALSE(waits.empty());
    EXPECT_GE(waits.front().at - begin, yields_for_ns);
    EXPECT_LE(waits.front().at - begin, yields_for_ns + 2 * kTurnNs);
  }
}

TEST_F(EngineLoopTest, SleepsWithoutALimitWhenNothingIsOutstanding) {
  Run(kNsPerSec);
  EXPECT_THAT(world_.Timeouts(), ElementsAre(kNoLimit));
}

TEST_F(EngineLoopTest, SleepsShortlyWhileWorkRuns) {
  daemon_.level = Urgency::kSpin;
  Run(kYieldNs + 5 * kRunningSleepNs);
  const std::vector<int64_t> timeouts = world_.Timeouts();
  EXPECT_GE(timeouts.size(), 4u);
  EXPECT_THAT(timeouts, testing::Each(kRunningSleepNs));
}

TEST_F(EngineLoopTest, SleepsThatBackOffDoubleUpToALimit) {
  daemon_.level = Urgency::kBackOff;
  Run(kNsPerMs);
  const std::vector<int64_t> timeouts = world_.Timeouts();
  ASSERT_GE(timeouts.size(), 4u);
  EXPECT_GE(timeouts[0], kBackOffAfterNs);
  EXPECT_LE(timeouts[0], kBackOffAfterNs + 2 * kTurnNs);
  EXPECT_EQ(timeouts[1], 2 * timeouts[0] + kTurnNs) << "as long as it has waited, with a turn";
  for (size_t i = 2; i < timeouts.size(); ++i) EXPECT_EQ(timeouts[i], kBackOffMaxNs) << i;
}

TEST_F(EngineLoopTest, ProgressStartsTheWaitAnew) {
  daemon_.level = Urgency::kBackOff;
  MonotonicNs progress = 0;
  daemon_.poll = [&] {
    if (progress > 0 || world_.now < start_ + kNsPerMs) return false;
    progress = world_.now;
    return true;
  };
  Run(2 * kNsPerMs);
  ASSERT_GT(progress, 0);
  const std::vector<Event> waits = world_.Of(Kind::kWait);
  const auto next = std::find_if(waits.begin(), waits.end(),
                                 [&](const Event& wait) { return wait.at > progress; });
  ASSERT_TRUE(next != waits.begin() && next != waits.end());
  EXPECT_EQ((next - 1)->timeout_ns, kBackOffMaxNs);
  EXPECT_GE(next->at - progress, kBackOffAfterNs);
  EXPECT_LE(next->timeout_ns, kBackOffAfterNs + 2 * kTurnNs);
}

TEST_F(EngineLoopTest, FollowsAChangeOfTheUrgency) {
  daemon_.level = Urgency::kSpin;
  world_.on_event = [&](const Event& event) {
    if (event.kind == Kind::kYield && event.at - start_ >= 2 * kLingerNs)
      daemon_.level = Urgency::kSleep;
  };
  Run(kYieldNs);
  EXPECT_THAT(world_.Timeouts(), ElementsAre(kNoLimit)) << "it has been idle for long enough";
}

// ---- Deadlines -----

TEST_F(EngineLoopTest, SleepsUntilTheDeadline) {
  daemon_.deadline = start_ + 3 * kNsPerMs;
  daemon_.poll = [&] {
    if (world_.now < daemon_.deadline) return false;
    daemon_.deadline = kNever;
    return true;
  };
  Run(kNsPerSec);
  const std::vector<Event> waits = world_.Of(Kind::kWait);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].at + waits[0].timeout_ns, start_ + 3 * kNsPerMs);
  EXPECT_EQ(waits[1].timeout_ns, kNoLimit);
}

TEST_F(EngineLoopTest, TheEarlierOfPauseAndDeadlineEndsTheSleep) {
  daemon_.level = Urgency::kSpin;
  daemon_.deadline = start_ + kYieldNs + kRunningSleepNs / 2;
  Run(kYieldNs + kRunningSleepNs / 4);
  ASSERT_FALSE(world_.Timeouts().empty());
  EXPECT_EQ(world_.Of(Kind::kWait)[0].at + world_.Timeouts()[0], daemon_.deadline);
  world_.events.clear();
  daemon_.deadline = kNever - 1;
  Run(kYieldNs + 2 * kRunningSleepNs);
  ASSERT_FALSE(world_.Timeouts().empty());
  EXPECT_EQ(world_.Timeouts()[0], kRunningSleepNs);
}

TEST_F(EngineLoopTest, DoesNotSleepPastAMissedDeadline) {
  daemon_.deadline = start_ - kNsPerSec;
  Run(2 * kLingerNs);
  ASSERT_FALSE(world_.Timeouts().empty());
  EXPECT_THAT(world_.Timeouts(), testing::Each(0));
}

// ---- Wake-ups -----

TEST_F(EngineLoopTest, TheTurnAfterAWakeUpKnowsOfIt) {
  int wakes = 0;
  reactor_.wait = [&](int64_t) { return ++wakes <= 3 ? 2 : 0; };
  Run(kNsPerSec);
  const std::vector<Event> turns = world_.Of(Kind::kTurn);
  size_t woken = 0;
  for (size_t i = 1; i < world_.events.size(); ++i) {
    if (world_.events[i].kind != Kind::kTurn) continue;
    woken += world_.events[i].woken;
    EXPECT_TRUE(!world_.events[i].woken || world_.events[i - 1].kind == Kind::kEndSleep);
  }
  EXPECT_EQ(woken, 3u) << "each once";
  EXPECT_EQ(world_.Timeouts().size(), 4u) << "a turn without progress sleeps again at once";
}

TEST_F(EngineLoopTest, ProgressAfterAWakeUpIsNoWakeUp) {
  int wakes = 0;
  reactor_.wait = [&](int64_t) { return ++wakes == 1 ? 1 : 0; };
  int busy = 0;
  daemon_.poll = [&] { return wakes == 1 && ++busy <= 5; };
  Run(kNsPerSec);
  ASSERT_GT(busy, 5);
  const std::vector<Event> turns = world_.Of(Kind::kTurn);
  EXPECT_EQ(std::count_if(turns.begin(), turns.end(), [](const Event& e) { return e.woken; }), 1);
}

TEST_F(EngineLoopTest, ATimeoutIsNoWakeUp) {
  daemon_.level = Urgency::kBackOff;
  Run(kNsPerMs);
  ASSERT_FALSE(world_.Of(Kind::kWait).empty());
  for (const Event& turn : world_.Of(Kind::kTurn)) EXPECT_FALSE(turn.woken);
}

TEST_F(EngineLoopTest, WorkFoundAtTheLastLookPreventsTheSleep) {
  int looks = 0;
  daemon_.has_work = [&] { return ++looks == 1; };
  Run(kNsPerSec);
  std::vector<Kind> kinds;
  for (const Event& event : world_.events)
    if (event.kind != Kind::kYield) kinds.push_back(event.kind);
  kinds.erase(kinds.begin(), std::find(kinds.begin(), kinds.end(), Kind::kPrepareSleep));
  EXPECT_THAT(kinds, ElementsAre(Kind::kPrepareSleep, Kind::kEndSleep, Kind::kTurn,
                                 Kind::kPrepareSleep, Kind::kWait, Kind::kEndSleep));
}

// A tenant posts work as the shim does: it sets its dirty bit, and then rings the doorbell if the
// daemon says that it sleeps. Both happen at a given step of the engine.
struct PostingTenant {
  void Step() {
    if (!posted && step >= post_at) posted = dirty = true;
    if (posted && !looked && step >= look_at) {
      looked = true;
      doorbell = asleep;
    }
    ++step;
  }

  size_t post_at = 0;
  size_t look_at = 0;
  size_t step = 0;
  bool asleep = false;  // written by the daemon, read by the tenant
  bool dirty = false;   // written by the tenant, read by the daemon
  bool posted = false, looked = false, doorbell = false;
  bool done = false;  // a turn has taken the work
};

TEST_F(EngineLoopTest, LosesNoWorkPostedAtAnyStepAroundASleep) {
  int rings = 0;
  const auto run = [&](PostingTenant& tenant) {
    world_.on_event = [&](const Event& event) {
      if (event.kind == Kind::kEndSleep) tenant.asleep = false;
    };
    daemon_.poll = [&] {
      tenant.Step();
      const bool moved = std::exchange(tenant.dirty, false);
      tenant.done |= moved;
      tenant.Step();
      return moved;
    };
    daemon_.has_work = [&] {
      tenant.asleep = true;
      tenant.Step();
      const bool work = tenant.dirty;
      tenant.Step();
      return work;
    };
    reactor_.wait = [&](int64_t /*timeout_ns*/) {
      // The engine sleeps for as long as the tenant takes.
      while (!tenant.done && !tenant.looked) tenant.Step();
      const bool rung = std::exchange(tenant.doorbell, false);
      rings += rung;
      return rung ? 1 : 0;
    };
    Run(kNsPerSec);
  };
  PostingTenant late{.post_at = 1'000'000, .look_at = 1'000'000};
  world_.on_event = nullptr;
  size_t steps_to_sleep = 0;
  daemon_.poll = [&] { return steps_to_sleep += 2, false; };
  Run(kNsPerSec);
  steps_to_sleep += 2;  // PrepareSleep
  run(late);
  ASSERT_TRUE(late.done);
  ASSERT_EQ(rings, 1) << "the engine slept";
  for (size_t post = steps_to_sleep - 6; post < steps_to_sleep + 4; ++post) {
    for (size_t look = post; look < steps_to_sleep + 6; ++look) {
      PostingTenant tenant{.post_at = post, .look_at = look};
      run(tenant);
      EXPECT_TRUE(tenant.done) << "bit at step " << post << ", look at step " << look << " of "
                               << steps_to_sleep;
    }
  }
  EXPECT_GT(rings, 10) << "few sleeps were interrupted; the test shows little";
}

// ---- Signs of life -----

class SignsOfLife : public EngineLoopTest {
 protected:
  // As Run, with a sign of life each second. Returns their times.
  std::vector<MonotonicNs> RunWatched(int64_t ns) {
    std::vector<MonotonicNs> signs;
    const MonotonicNs end = world_.now + ns;
    world_.on_event = [&](const Event&) {
      if (world_.now >= end) world_.stop.readable = true;
    };
    EngineLoop(daemon_, reactor_, world_, &Yield,
               {.every_ns = kNsPerSec, .give = [&] { signs.push_back(world_.now); }})
        .Run(world_.stop);
    return signs;
  }
  // No two are further apart than the interval and `late_ns`.
  static void ExpectRegular(const std::vector<MonotonicNs>& signs, int64_t late_ns) {
    ASSERT_GE(signs.size(), 5u);
    for (size_t i = 1; i < signs.size(); ++i) {
      EXPECT_GE(signs[i] - signs[i - 1], kNsPerSec);
      EXPECT_LE(signs[i] - signs[i - 1], kNsPerSec + late_ns);
    }
  }
};

TEST_F(SignsOfLife, AreGivenByAnEngineWithoutWork) {
  const std::vector<MonotonicNs> signs = RunWatched(6 * kNsPerSec);
  EXPECT_EQ(signs.at(0), start_ + kTurnNs) << "after the first turn";
  ExpectRegular(signs, kTurnNs);
  EXPECT_LE(world_.Timeouts().size(), 12u) << "it sleeps between them";
}

TEST_F(SignsOfLife, AreGivenByABusyEngine) {
  // Long turns, so that the test is short.
  daemon_.poll = [&] { return world_.now += kNsPerMs, true; };
  ExpectRegular(RunWatched(6 * kNsPerSec), 2 * kNsPerMs);
  EXPECT_THAT(world_.Timeouts(), IsEmpty());
}

TEST_F(SignsOfLife, AreNotGivenDuringATurn) {
  bool stuck = true;
  MonotonicNs began = 0;
  daemon_.poll = [&] {
    if (world_.now - start_ < 2 * kNsPerSec || !std::exchange(stuck, false)) return false;
    began = world_.now;
    world_.now += 60 * kNsPerSec;
    return false;
  };
  const std::vector<MonotonicNs> signs = RunWatched(70 * kNsPerSec);
  ASSERT_GT(began, 0);
  EXPECT_EQ(
      std::count_if(signs.begin(), signs.end(),
                    [&](MonotonicNs at) { return at > began && at < began + 60 * kNsPerSec; }),
      0);
  EXPECT_GT(signs.back(), began + 60 * kNsPerSec) << "and after it";
}

// ---- Start, end, counters -----

TEST_F(EngineLoopTest, EndsAfterTheTurnThatSeesTheStop) {
  world_.stop.readable = true;
  EngineLoop(daemon_, reactor_, world_, &Yield).Run(world_.stop);
  EXPECT_THAT(world_.events, IsEmpty());
  world_.stop.readable = false;
  reactor_.wait = [&](int64_t) {
    world_.stop.readable = true;
    return 1;
  };
  EngineLoop(daemon_, reactor_, world_, &Yield).Run(world_.stop);
  EXPECT_EQ(world_.events.back().kind, Kind::kEndSleep);
}

TEST_F(EngineLoopTest, CountsTurnsAndTheTimeAwake) {
  int turns = 0;
  daemon_.poll = [&] { return ++turns <= 10; };
  daemon_.deadline = start_ + kNsPerSec;
  reactor_.wait = [&](int64_t timeout_ns) {
    if (timeout_ns >= 0) daemon_.deadline = kNever;
    return 0;
  };
  Run(2 * kNsPerSec);
  const DaemonCounters& counters = *daemon_.numbers;
  EXPECT_EQ(counters.turns.value(), world_.Of(Kind::kTurn).size());
  EXPECT_EQ(counters.busy_turns.value(), 10u);
  EXPECT_EQ(counters.sleeps.value(), 2u);
  EXPECT_GE(counters.awake_ns.value(), static_cast<uint64_t>(kLingerNs));
  EXPECT_LT(counters.awake_ns.value(), static_cast<uint64_t>(2 * kLingerNs))
      << "a second of sleep is not counted";
}

// The alert on a stuck engine needs it: neither counter moves during a long sleep or a long turn.
TEST_F(EngineLoopTest, ReportsThatItSleepsOnlyWhileItWaits) {
  std::vector<std::pair<Kind, int64_t>> reported;
  world_.on_event = [&](const Event& event) {
    if (event.kind != Kind::kYield)
      reported.emplace_back(event.kind, daemon_.numbers->asleep.value());
  };
  Run(kNsPerMs);
  ASSERT_FALSE(reported.empty());
  EXPECT_EQ(reported.back(), std::pair(Kind::kEndSleep, int64_t{0}));
  EXPECT_THAT(reported, testing::Contains(testing::Pair(Kind::kWait, 1)));
  for (const auto& [kind, asleep] : reported) {
    EXPECT_EQ(asleep, kind == Kind::kWait ? 1 : 0) << static_cast<int>(kind);
  }
}

}  // namespace engine_loop_test
}  // namespace mccs
