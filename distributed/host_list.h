// The hosts of Slurm's compressed lists: "a[01-03,7],b" is a01 a02 a03 a7 b.
#pragma once

#include <string>
#include <vector>

namespace reprise::distributed {

/// In the order of the list, which is that of Slurm's tasks. Error if `text` is no such list, or of more than 65,536 hosts.
std::vector<std::string> hosts_of(const std::string& text);

}  // namespace reprise::distributed
