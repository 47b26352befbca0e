// The pictures of a trained classifier: confusion, mistakes, attention, and a page with all of them.
#pragma once

#include <string>

#include "reprise/apps/vit/evaluate.h"
#include "reprise/apps/vit/model.h"

namespace reprise::apps::vit {

/// Writes confusion.svg, samples.svg, attention.svg and report.html, which needs no other file, into the run folder.
void write_report(const std::string& run_folder, nn::Vit& model, const Classifier& classifier,
                  const data::Dataset& images, const data::Pipeline& pipeline, const Evaluation& evaluation);

}  // namespace reprise::apps::vit
