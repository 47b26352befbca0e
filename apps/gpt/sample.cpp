// reprise-gpt sample.
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/gpt/generate.h"
#include "reprise/apps/gpt/model.h"
#include "reprise/apps/gpt/options.h"
#include "reprise/train/output.h"

namespace reprise::apps::gpt {

int run_sample(const SampleCommand& command) {
  const Device device = Device::parse(command.device);
  use_attention(command.attention, device);
  LoadedRun run = load_run(command.run, device);
  const train::PrecisionScope precision = precision_scope(command, device, run.folder);
  take_precision(run.model->module(), command, run.folder);
  for (int64_t i = 0; i < command.generate.samples; ++i) {
    if (i > 0) train::print("\n---\n");
    generate(*run.model, run.tokenizer.get(), command.generate, i,
             [](std::string_view text) { train::print_text(train::for_output(std::string(text))); });
    train::print_text("\n");
  }
  return 0;
}

}  // namespace reprise::apps::gpt
