// Anomaly mode and the names of scopes.
#include "reprise/autograd/anomaly.h"

#include <utility>

namespace reprise::autograd {
namespace {
thread_local bool enabled_now = false;
thread_local const OpScope* innermost_scope = nullptr;
}  // namespace

bool anomaly_mode_enabled() { return enabled_now; }

std::string op_scope() {
  std::string text;
  for (const OpScope* scope = innermost_scope; scope; scope = scope->outer())
    text = scope->name() + (text.empty() ? "" : " / ") + text;
  return text;
}

std::string anomaly_location() { return !innermost_scope ? "" : " in " + op_scope(); }

AnomalyMode::AnomalyMode(bool enabled) : previous_(enabled_now) { enabled_now = enabled; }
AnomalyMode::~AnomalyMode() { enabled_now = previous_; }

OpScope::OpScope(std::string name) : name_(std::move(name)), outer_(std::exchange(innermost_scope, this)) {}
OpScope::~OpScope() { innermost_scope = outer_; }

}  // namespace reprise::autograd
