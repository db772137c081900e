// Formats a session's answers.
#ifndef MCCS_SERVICE_FRONTEND_SESSION_REPLY_H_
#define MCCS_SERVICE_FRONTEND_SESSION_REPLY_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "proto/shim_control.h"
#include "service/error_class.h"

namespace mccs {

inline wire::ReplyStatus ToReply(const absl::Status& status) {
  wire::ReplyStatus reply{};
  reply.error = ToErrorClass(status);
  const std::string text(status.message());
  std::strncpy(reply.text, text.c_str(), sizeof(reply.text) - 1);
  return reply;
}

template <typename Message>
Message Reply(uint64_t request, const absl::Status& status) {
  Message reply{};
  reply.header.request = request;
  reply.status = ToReply(status);
  return reply;
}

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_SESSION_REPLY_H_
