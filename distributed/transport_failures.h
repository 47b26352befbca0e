// What a wait of a transport throws: at its deadline, or where the other rank has left.
#pragma once

#include "reprise/distributed/errors.h"

namespace reprise::distributed {

/// A rank has not made the call that was waited for.
inline Failure late_call(int rank) {
  return {FailureKind::late, rank, detail::join("rank ", rank, " did not make the call in time")};
}

/// A rank's data has not come, or was not taken. Who waits for that knows less: the other rank may itself wait for a third one.
inline Failure late_data(int rank) {
  return {FailureKind::late, rank,
          detail::join("what rank ", rank,
                       " exchanges in the call did not come in time; it may wait for another rank")};
}

/// It has left the group; `last` was its last call, if it has made one.
inline Failure left_failure(int rank, const std::string& last) {
  return {FailureKind::left, rank,
          detail::join("rank ", rank, " left the group", last.empty() ? "" : " after ", last)};
}

}  // namespace reprise::distributed
