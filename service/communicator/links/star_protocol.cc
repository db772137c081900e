#include "service/communicator/links/star_protocol.h"

#include "absl/strings/str_cat.h"
#include "service/communicator/links/peer_link.h"

namespace mccs {
namespace {

using Body = peer::Message::BodyCase;

// Which role may send a message, and in which phase of the receiver.
struct Legality {
  bool leader = false;
  bool member = false;
  bool linking = false;
  bool opening = false;
  bool active = false;
};

constexpr Legality kNoTurn{};
constexpr Legality kFromLeader{.leader = true, .active = true};
constexpr Legality kFromMember{.member = true, .active = true};

Legality LegalityOf(Body body) {
  switch (body) {
    case Body::kOpen:
      return {.leader = true, .linking = true};
    case Body::kReady:
      return {.member = true, .opening = true};
    case Body::kGo:
      return {.leader = true, .opening = true};
    case Body::kFailed:
      return {.leader = true, .member = true, .linking = true, .opening = true, .active = true};
    case Body::kDeparted:
      return {.leader = true, .member = true, .active = true};
    case Body::kEnteredRequest:
    case Body::kStalledOn:
    case Body::kOrderHold:
    case Body::kOrderBegins:
    case Body::kOrderNext:
    case Body::kSplitTable:
    case Body::kSplitFailed:
    case Body::kStrategyChange:
      return kFromLeader;
    case Body::kStalled:
    case Body::kEntered:
    case Body::kOrderRequest:
    case Body::kOrderStarted:
    case Body::kSplitCall:
    case Body::kStrategyChangeAnswer:
      return kFromMember;
    case Body::kJoin:  // of other links: with a rendezvous,
    case Body::kWaiting:
    case Body::kRejected:
    case Body::kRoster:
    case Body::kHello:  // or the first message of this one, which the star handles
    case Body::BODY_NOT_SET:
      break;
  }
  return kNoTurn;
}

bool IsIn(const Legality& turn, StarPhase phase) {
  switch (phase) {
    case StarPhase::kLinking:
      return turn.linking;
    case StarPhase::kOpening:
      return turn.opening;
    case StarPhase::kActive:
      return turn.active;
    case StarPhase::kEnded:
      break;
  }
  return true;
}

const char* Name(StarPhase phase) {
  switch (phase) {
    case StarPhase::kLinking:
      return "linking its hosts";
    case StarPhase::kOpening:
      return "opening its lanes";
    case StarPhase::kActive:
      return "active";
    case StarPhase::kEnded:
      break;
  }
  return "ended";
}

// ".hold" of a message with steps.
template <typename Steps>
std::string StepOf(const Steps& message) {
  const auto* const field = Steps::descriptor()->FindFieldByNumber(message.step_case());
  return field == nullptr ? "" : absl::StrCat(".", std::string(field->name()));
}

}  // namespace

std::string NameOf(const peer::Message& message) {
  const auto* const field = peer::Message::descriptor()->FindFieldByNumber(message.body_case());
  if (field == nullptr) return "empty message";
  std::string name(field->name());
  if (message.has_strategy_change()) name += StepOf(message.strategy_change());
  if (message.has_strategy_change_answer()) name += StepOf(message.strategy_change_answer());
  return name;
}

absl::Status CheckLegal(const peer::Message& message, bool from_leader, StarPhase phase) {
  const Legality turn = LegalityOf(message.body_case());
  if (!(from_leader ? turn.leader : turn.member)) {
    return absl::DataLossError(from_leader ? "not legal from a leader on this link"
                                           : "not legal from a member on this link");
  }
  if (IsIn(turn, phase)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("unexpected while the communicator is ", Name(phase), " on this host"));
}

absl::Status Rejected(const std::string& host, const peer::Message& message,
                      const absl::Status& why) {
  const bool ours = !absl::IsDataLoss(why) && !absl::IsInvalidArgument(why);
  if (ours) return why;  // e.g. no memory for lanes
  const std::string text = absl::StrCat("message rejected: host ", host, " sent ", NameOf(message),
                                        ": ", std::string(why.message()));
  return StatusFromPeer(static_cast<uint32_t>(absl::StatusCode::kDataLoss), text);
}

}  // namespace mccs
