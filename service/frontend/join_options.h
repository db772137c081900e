// What a tenant's process says of a communicator that it asks for, as the daemon's communicators
// take it.
#ifndef MCCS_SERVICE_FRONTEND_JOIN_OPTIONS_H_
#define MCCS_SERVICE_FRONTEND_JOIN_OPTIONS_H_

#include <cstring>
#include <string>

#include "proto/shim_control.h"
#include "service/communicator/communicator_environment.h"

namespace mccs {

// A tenant's text for logs, peers and controller: terminated or not, printable ASCII afterwards.
template <size_t n>
std::string TextOf(const char (&field)[n]) {
  std::string text(field, strnlen(field, n));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

// Name, times and hints of the rank's communicator.
void SetOptions(const wire::CommOptions& options, JoinRequest* join);

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_JOIN_OPTIONS_H_
