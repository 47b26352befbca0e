// What a run learns from, as far as a resumed run has to be sure of it.
#pragma once

#include <string>

#include "reprise/apps/gpt/corpus.h"

namespace reprise::apps::gpt {

/// The number of tokens and their CRC-32C, of the part to train on and the one held out, as the TOML that a
/// run folder keeps in data.toml. Two sources with one record give a run the same bits.
std::string data_record(const Corpus& corpus);

/// Whether the run folder has a record, and what of it `corpus` has differently: "150 held-out tokens with
/// checksum 1f0c2a77, now 151 with 0b3d5e11"; empty if nothing.
bool has_data_record(const std::string& run_folder);
std::string difference_of_data(const std::string& run_folder, const Corpus& corpus);

}  // namespace reprise::apps::gpt
