// The pictures of a trained classifier: confusion, mistakes, a Vit's attention, and a page with all of them.
#pragma once

#include <string>

#include "reprise/apps/common/models/classifier.h"
#include "reprise/apps/vit/evaluate.h"

namespace reprise::apps::vit {

/// Writes confusion.svg, samples.svg, of a Vit attention.svg, and report.html, which needs no other file, into the run folder.
void write_report(const std::string& run_folder, const ImageModel& model, const Classifier& classifier,
                  const data::Dataset& images, const data::Pipeline& pipeline, const Evaluation& evaluation);

}  // namespace reprise::apps::vit
