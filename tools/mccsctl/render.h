// The controller's answers as text: tables for people, JSON and YAML for programs. Pure.
#ifndef MCCS_TOOLS_MCCSCTL_RENDER_H_
#define MCCS_TOOLS_MCCSCTL_RENDER_H_

#include <string>

#include "proto/operator.pb.h"

namespace mccs {

std::string RenderHosts(const control::ListHostsReply& reply);
std::string RenderCommunicators(const control::ListCommunicatorsReply& reply);
// `wide`: links by name.
std::string RenderTop(const control::TopRates& top, bool wide);
std::string RenderCommunicator(const control::CommunicatorDetail& detail);

// Protobuf's mapping of a message to JSON, with the fields' own names and all of them; 64-bit
// integers are strings there.
std::string RenderJson(const google::protobuf::Message& message);
// The same content as a YAML document.
std::string RenderYaml(const google::protobuf::Message& message);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_RENDER_H_
