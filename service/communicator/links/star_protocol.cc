#include "service/communicator/links/star_protocol.h"

#include "absl/strings/str_cat.h"
#include "service/communicator/links/peer_link.h"

namespace mccs {
namespace {

using Body = peer::Message::BodyCase;

// The role that may send a message, and the phases of the receiver: `first` to `last`. After the
// end, any may still arrive.
struct Legality {
  bool leader = false;
  bool member = false;
  StarPhase first = StarPhase::kActive;
  StarPhase last = StarPhase::kActive;
};

// By StarPhase.
constexpr const char* kPhaseStates[] = {"linking its hosts", "opening its lanes", "active",
                                        "ended"};

constexpr Legality kNoTurn{};
constexpr Legality kFromLeader{.leader = true};
constexpr Legality kFromMember{.member = true};

Legality LegalityOf(Body body) {
  switch (body) {
    case Body::kOpen:
    case Body::kOpenNotice:
      return {.leader = true, .first = StarPhase::kLinking, .last = StarPhase::kLinking};
    case Body::kOpenRequest:
    case Body::kReady:
      return {.member = true, .first = StarPhase::kOpening, .last = StarPhase::kOpening};
    case Body::kGo:
      return {.leader = true, .first = StarPhase::kOpening, .last = StarPhase::kOpening};
    case Body::kFailed:
      return {.leader = true, .member = true, .first = StarPhase::kLinking};
    case Body::kDeparted:
      return {.leader = true, .member = true};
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
    case Body::kRosterNotice:
    case Body::kRosterRequest:
    case Body::kHello:  // or the first message of this one, which the star handles
    case Body::BODY_NOT_SET:
      break;
  }
  return kNoTurn;
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
    return absl::DataLossError(from_leader ? "not allowed from the leader on a control link"
                                           : "not allowed from a member on a control link");
  }
  if (phase == StarPhase::kEnded || (turn.first <= phase && phase <= turn.last)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("unexpected while the communicator is ",
                                          kPhaseStates[static_cast<size_t>(phase)],
                                          " on this host"));
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
