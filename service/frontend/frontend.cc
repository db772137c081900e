#include "service/frontend/frontend.h"

#include <utility>

namespace mccs {

bool Frontend::Poll() {
  bool moved = AcceptNew();
  for (auto& session : sessions_) moved |= session->Poll();
  std::erase_if(sessions_, [](const auto& session) { return session->closed(); });
  return moved;
}

bool Frontend::AcceptNew() {
  bool moved = false;
  for (auto& door : doors_) {
    for (;;) {
      auto channel = door->Accept();
      if (!channel.ok()) {
        env_.log->Error("cannot let a process in: ", std::string(channel.status().message()));
        break;
      }
      if (*channel == nullptr) break;
      moved = true;
      if (sessions_.size() >= kMaxSessions) {
        env_.log->Error("process ", (*channel)->identity().process,
                        " is turned away: ", sessions_.size(),
                        " processes are connected, which is the limit");
        continue;
      }
      sessions_.push_back(
          std::make_unique<Session>(SessionId(++last_id_), env_, std::move(*channel)));
    }
  }
  return moved;
}

bool Frontend::PrepareSleep() {
  bool work = false;
  for (auto& session : sessions_) work |= session->PrepareSleep();
  return work;
}

void Frontend::EndSleep() {
  for (auto& session : sessions_) session->EndSleep();
}

}  // namespace mccs
