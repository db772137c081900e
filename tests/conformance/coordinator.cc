#include "conformance/coordinator.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace conformance {
namespace {

constexpr int kPollMs = 100;

}  // namespace

Coordinator::Coordinator(int listener, Options options, Events events)
    : listener_(listener),
      options_(options),
      events_(std::move(events)),
      began_(Clock::now()),
      thread_([this] { Run(); }) {}

Coordinator::~Coordinator() {
  thread_.join();
  for (Member& member : members_) close(member.fd);
  close(listener_);
}

void Coordinator::Run() {
  while (test_ < options_.tests) {
    std::vector<pollfd> waiting;
    for (const Member& member : members_) waiting.push_back({member.fd, POLLIN, 0});
    waiting.push_back({listener_, POLLIN, 0});
    poll(waiting.data(), waiting.size(), kPollMs);
    if (waiting.back().revents != 0) Accept();
    for (size_t i = 0; i + 1 < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      Member& member = members_[i];
      const bool open = member.reader.Read();
      while (std::optional<Frame> frame = member.reader.Next()) Handle(&member, *frame);
      if (!open && test_ < options_.tests) {
        events_.broken(test_, "the process of rank " + std::to_string(member.rank) + " has ended");
        return;
      }
    }
    if (Clock::now() - began_ > options_.limit && test_ < options_.tests) {
      events_.broken(test_, "timed out; still blocked in a call: " + Unfinished());
      return;
    }
  }
}

void Coordinator::Accept() {
  int fd = accept(listener_, nullptr, nullptr);
  if (fd >= 0) members_.push_back({fd, FrameReader(fd), -1, {}, {}});
}

void Coordinator::Handle(Member* member, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kHello:
      member->rank = static_cast<int>(frame.number);
      return;
    case FrameKind::kContribute:
      member->part = frame.payload;
      if (AnyRankLeft()) return RejectExchange();
      return CompleteExchange(frame.number);
    case FrameKind::kFinish:
      return HandleFinish(member, frame);
    default:
      return;
  }
}

bool Coordinator::AnyRankLeft() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.outcome && *member.outcome != Outcome::kIdle;
  });
}

void Coordinator::CompleteExchange(uint32_t participants) {
  std::vector<std::pair<int, const std::string*>> parts;
  for (const Member& member : members_) {
    if (member.part) parts.emplace_back(member.rank, &*member.part);
  }
  if (parts.size() < participants) return;
  std::sort(parts.begin(), parts.end());
  std::vector<std::string> in_order;
  for (const auto& [rank, part] : parts) in_order.push_back(*part);
  const Frame frame{FrameKind::kAllParts, static_cast<uint32_t>(test_), participants,
                    PackParts(in_order)};
  for (Member& member : members_) {
    if (!member.part) continue;
    member.part.reset();
    SendFrame(member.fd, frame);
  }
}

void Coordinator::RejectExchange() {
  for (Member& member : members_) {
    if (!member.part) continue;
    member.part.reset();
    SendFrame(member.fd, {FrameKind::kPeerLeft, static_cast<uint32_t>(test_), 0, verdict_.text});
  }
}

void Coordinator::HandleFinish(Member* member, const Frame& frame) {
  const auto outcome = static_cast<Outcome>(frame.number);
  member->outcome = outcome;
  const bool first_failure = outcome == Outcome::kFailed && verdict_.outcome != Outcome::kFailed;
  const bool skipped = outcome == Outcome::kSkipped && verdict_.outcome == Outcome::kPassed;
  if (first_failure || skipped) {
    verdict_.outcome = outcome;
    verdict_.text = frame.payload;
  }
  if (first_failure) {
    verdict_.text = "rank " + std::to_string(member->rank) + ": " + frame.payload;
    SendToAll({FrameKind::kPeerFailed, static_cast<uint32_t>(test_), 0, verdict_.text});
  }
  if (outcome != Outcome::kIdle) RejectExchange();
  const auto through = std::count_if(members_.begin(), members_.end(),
                                     [](const Member& one) { return one.outcome.has_value(); });
  if (through == options_.ranks) CompleteTest();
}

void Coordinator::CompleteTest() {
  verdict_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  events_.finished(test_, verdict_);
  const Frame frame{FrameKind::kVerdict, static_cast<uint32_t>(test_),
                    static_cast<uint32_t>(verdict_.outcome), verdict_.text};
  for (Member& member : members_) {
    member.outcome.reset();
    member.part.reset();
  }
  verdict_ = {};
  began_ = Clock::now();
  ++test_;
  SendToAll(frame);
}

void Coordinator::SendToAll(const Frame& frame) {
  for (Member& member : members_) SendFrame(member.fd, frame);
}

std::string Coordinator::Unfinished() const {
  std::vector<int> there;
  for (const Member& member : members_) {
    if (member.outcome) there.push_back(member.rank);
  }
  std::string missing;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (std::find(there.begin(), there.end(), rank) != there.end()) continue;
    missing += (missing.empty() ? "rank " : ", ") + std::to_string(rank);
  }
  return missing;
}

}  // namespace conformance
