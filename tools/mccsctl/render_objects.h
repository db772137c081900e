// Objects, changes of them and the audit log as text. Pure.
#ifndef MCCS_TOOLS_MCCSCTL_RENDER_OBJECTS_H_
#define MCCS_TOOLS_MCCSCTL_RENDER_OBJECTS_H_

#include <string>

#include "proto/operator.pb.h"

namespace mccs {

// `what`: "tenants", for a list that is empty.
std::string RenderObjects(const control::ListObjectsReply& reply, const std::string& what,
                          bool wide);
// One object in full.
std::string RenderObject(const control::Object& object);
// The objects as they would be applied: documents, one after the other.
std::string RenderDocuments(const control::ListObjectsReply& reply);
// The same as JSON: one object, or a list of them.
std::string RenderDocumentsAsJson(const control::ListObjectsReply& reply);

std::string RenderChange(const control::ChangeReply& reply);
// Of each object that would change, what; empty: none would.
std::string RenderDifferences(const control::ChangeReply& reply);

// What came of `drain` or `undrain` of a host or link.
std::string RenderDrain(const control::DrainReply& reply, const std::string& what,
                        const std::string& name, bool undo);
std::string RenderAudit(const control::ListAuditReply& reply);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_RENDER_OBJECTS_H_
