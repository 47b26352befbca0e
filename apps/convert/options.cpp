#include "reprise/apps/convert/options.h"

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/validators.h"

namespace reprise::apps::convert {

Command parse_command_line(int argc, char** argv) {
  Command c;
  CLI::App app(
      "reprise-convert: weights of timm, torchvision, Pytorch-UNet, Hugging Face (ViT, GPT-2, Llama), llm.c, "
      "and "
      "back.\n"
      "What FILE is is seen from the names in it.",
      "reprise-convert");
  app.get_formatter()->column_width(34);
  app.add_option("file", c.file,
                 "Weights: .safetensors, .safetensors.index.json, llm.c's .bin, a folder with one of them,\n"
                 "or a run of Reprise")
      ->required()
      ->check(not_empty());
  app.add_option("--to", c.to,
                 "timm, hf (transformers), llm.c, or reprise, which vit and gpt take as --run too")
      ->required()
      ->check(CLI::IsMember({"timm", "hf", "llm.c", "reprise"}));
  app.add_option("--out", c.out, "Folder for the result: new, or empty")->required()->check(not_empty());
  app.add_option("--part", c.part,
                 "Of a run of reprise-jepa: encoder, or I-JEPA's target_encoder, which is its average")
      ->check(CLI::IsMember({"encoder", "target_encoder"}));
  app.add_option("--heads", c.heads, "Attention heads, where neither FILE nor a config.json beside it says")
      ->transform(whole_from(1));
  parse_arguments(app, argc, argv);
  return c;
}

}  // namespace reprise::apps::convert
