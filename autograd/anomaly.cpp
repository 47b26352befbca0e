// Anomaly mode and the names of scopes.
#include "reprise/autograd/anomaly.h"

#include <vector>

namespace reprise::autograd {
namespace {
thread_local bool enabled_now = false;
thread_local std::vector<std::string> scopes;
}  // namespace

bool anomaly_mode_enabled() { return enabled_now; }

std::string op_scope() {
  std::string text;
  for (const std::string& scope : scopes) text += (text.empty() ? "" : " / ") + scope;
  return text;
}

std::string anomaly_location() { return scopes.empty() ? "" : " in " + op_scope(); }

AnomalyMode::AnomalyMode(bool enabled) : previous_(enabled_now) { enabled_now = enabled; }
AnomalyMode::~AnomalyMode() { enabled_now = previous_; }

OpScope::OpScope(std::string name) { scopes.push_back(std::move(name)); }
OpScope::~OpScope() { scopes.pop_back(); }

}  // namespace reprise::autograd
