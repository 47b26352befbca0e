// The tokens that end what a model writes, as Hugging Face's folders name them beside the weights: eos_token_id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::io {

/// The eos_token_id, one or several, of generation_config.json in `folder` or, where that names none, of config.json; none if
/// neither does. Ids that no vocabulary has, such as -1, are left out. Error with file and offset if one of them is damaged.
std::vector<int32_t> read_end_tokens(const std::string& folder);

/// Them as JSON: a number, or a list of several; null for none.
std::string end_tokens_json(const std::vector<int32_t>& ids);

/// Writes generation_config.json, which says them, into `folder`, atomically.
void write_end_tokens(const std::string& folder, const std::vector<int32_t>& ids);

}  // namespace reprise::io
