#include "controller/kept_view.h"

#include <utility>
#include <vector>

#include "controller/complete_view.h"

namespace mccs {

const ClusterView& KeptView::Of(std::shared_ptr<const ObjectSet> objects,
                                std::shared_ptr<const ProbedPaths> probed) {
  Ground ground = {std::move(objects), std::move(probed), registry_.hosts_revision(),
                   strategies_.revision()};
  if (view_.ground > 0 && ground == ground_) {
    Renew();
    return view_;
  }
  const uint64_t number = view_.ground + 1;
  ground_ = std::move(ground);
  view_ = CompleteView(strategies_.With(registry_.View()), *ground_.objects);
  view_.probed = ground_.probed;
  view_.ground = number;
  return view_;
}

void KeptView::Renew() {
  std::vector<CommunicatorView>& now = view_.communicators;
  std::vector<CommunicatorView> next;
  next.reserve(registry_.communicators().size());
  auto old = now.begin();
  // Removes or updates entries; recovered communicators stay.
  const auto pass = [&](auto has_passed) {
    for (; old != now.end() && !has_passed(old->id); ++old) {
      if (old->revision == 0) next.push_back(std::move(*old));
    }
  };
  for (const auto& [id, record] : registry_.communicators()) {
    pass([&](CommId other) { return other >= id; });
    const bool is_there = old != now.end() && old->id == id;
    const bool same = is_there && old->revision == record.revision;
    next.push_back(same ? std::move(*old) : Complete(id));
    if (is_there) ++old;
  }
  pass([](CommId /*other*/) { return false; });
  now = std::move(next);
}

CommunicatorView KeptView::Complete(CommId id) const {
  CommunicatorView communicator = registry_.View(id);
  communicator.owner = OwnerOf(communicator, *ground_.objects);
  communicator.away = strategies_.IsAway(communicator, view_.hosts);
  return communicator;
}

}  // namespace mccs
