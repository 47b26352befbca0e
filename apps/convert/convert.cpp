// The work of reprise-convert: all is read and checked, written to a new folder, and that renamed.
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "reprise/apps/common/models/given_weights.h"
#include "reprise/apps/common/models/language_description.h"
#include "reprise/apps/convert/model_config.h"
#include "reprise/apps/convert/options.h"
#include "reprise/apps/convert/source.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/folder.h"
#include "reprise/io/llm_c.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/text/end_tokens.h"
#include "reprise/train/checkpoint/manifest.h"
#include "reprise/train/made_folders.h"
#include "reprise/train/output.h"

namespace reprise::apps::convert {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

// Writes the files of a result into a folder.
using Writer = std::function<void(const std::string& folder)>;

const Metadata pytorch = {{"format", "pt"}};  // without it transformers 4 refuses a file

const char* name_of(nn::Architecture architecture) {
  return architecture == nn::Architecture::vit     ? "ViT"
         : architecture == nn::Architecture::gpt   ? "GPT-2"
         : architecture == nn::Architecture::unet  ? "UNet"
         : architecture == nn::Architecture::llama ? "Llama"
                                                   : "ResNet";
}

bool is_classifier(const Source& source) {
  const nn::Architecture architecture = source.weights.kind.architecture;
  return architecture == nn::Architecture::vit || architecture == nn::Architecture::resnet;
}

io::NamedViews views(const nn::NamedTensors& tensors) { return {tensors.begin(), tensors.end()}; }

// The weights and files of text beside them.
Writer files(nn::NamedTensors tensors, std::map<std::string, std::string> texts) {
  return [tensors = std::move(tensors), texts = std::move(texts)](const std::string& folder) {
    io::write_safetensors(folder + "/model.safetensors", views(tensors), pytorch);
    for (const auto& [name, text] : texts) io::write_file(folder + "/" + name, text);
  };
}

// Their names of ViT-5's parts, and how a config says them, are theirs alone.
void check_plain(const nn::VitOptions& o, const char* option) {
  check(o.norm == nn::NormKind::layer && !o.qk_norm && !o.rope, option,
        ": a ViT there has LayerNorm, no norms of q and k and no rotary positions, this one has ",
        o.norm == nn::NormKind::rms ? "RMSNorm"
        : o.qk_norm                 ? "norms of q and k"
                                    : "rotary positions");
}

Writer to_timm(const Source& source) {
  const nn::NamedTensors& tensors = source.weights.tensors;
  check(is_classifier(source), "--to timm: timm has no ", name_of(source.weights.kind.architecture));
  if (const auto* vit = std::get_if<nn::VitOptions>(&source.classifier.model)) {
    check(vit->stem == nn::Stem::patch,
          "--to timm: this ViT has a convolutional stem (patch_embed.stem), timm's have none");
    check_plain(*vit, "--to timm");
    if (vit->norm_eps != nn::VitOptions{}.norm_eps)
      train::warn("warning: timm's norms have an eps of 1e-6, this model's {}\n", vit->norm_eps);
  }
  return files(tensors, {{"config.json", timm_config(source.classifier)}});
}

Writer to_hf(const Source& source) {
  const nn::Architecture architecture = source.weights.kind.architecture;
  check(architecture == nn::Architecture::vit || is_language_model(source.weights.options),
        "--to hf: there are ViT, GPT-2 and Llama, this is a ", name_of(architecture));
  const nn::NamedTensors& tensors = source.weights.tensors;
  const DType dtype = tensors.front().second.dtype();
  std::map<std::string, std::string> texts;
  if (architecture == nn::Architecture::vit) {
    const auto& o = std::get<nn::VitOptions>(source.classifier.model);
    check(o.class_token && !o.no_embed_class,
          "--to hf: a ViT there has a class token with a position of its own");
    check_plain(o, "--to hf");
    texts = {{"config.json", hf_config(source.classifier, dtype)},
             {"preprocessor_config.json", hf_preprocessor(source.classifier)}};
  } else {
    const auto* gpt = std::get_if<nn::GptOptions>(&source.language);
    check(!gpt || gpt->bias, "--to hf: a GPT-2 there has biases, this one has none");
    texts = {{"config.json", hf_config(source.language, dtype, source.end_tokens)}};
  }
  return files(nn::write_dialect(tensors, {architecture, nn::Naming::hugging_face}), std::move(texts));
}

Writer to_llm_c(const Source& source) {
  check(source.weights.kind.architecture == nn::Architecture::gpt, "--to llm.c: there is GPT-2, this is a ",
        name_of(source.weights.kind.architecture));
  return [&source](const std::string& folder) {
    io::write_llm_c(folder + "/model.bin", {.heads = std::get<nn::GptOptions>(source.language).heads,
                                            .tensors = source.weights.tensors});
  };
}

// A checkpoint of step 0, which `vit eval` and `gpt sample` take; weights alone, where no program has such a model.
Writer to_reprise(const Source& source) {
  Description description;
  if (is_language_model(source.weights.options)) description = describe(source.language);
  const auto* vit = std::get_if<nn::VitOptions>(&source.classifier.model);
  if (is_classifier(source) && !(vit && vit->pool == nn::Pool::none))
    description = describe(source.classifier);
  return [&source, description](const std::string& folder) {
    Metadata metadata = pytorch;
    for (const auto& [key, value] : description) metadata["model." + key] = value;
    for (const char* key : {"step", "random_seed", "random_offset"})
      if (!description.empty()) metadata[key] = "0";
    io::write_safetensors(folder + "/model.safetensors", views(source.weights.tensors), metadata);
    if (!description.empty()) train::write_manifest(folder);
    if (!source.end_tokens.empty()) io::write_end_tokens(folder, source.end_tokens);
  };
}

void check_out(const std::string& out) {
  if (!io::exists_or_links(out)) return;
  check(fs::is_directory(out) && io::names_in(out).empty(), "--out ", out,
        ": is there already, and is no empty folder");
}

// The folder appears with all its files, or not at all.
void write_folder(const std::string& out, const Writer& writer) {
  const fs::path path = fs::absolute(out).lexically_normal();
  const std::string whole = (path.has_filename() ? path : path.parent_path()).string();
  train::MadeFolders parent(io::parent_folder(whole));
  const std::string unfinished = whole + ".unfinished." + std::to_string(::getpid());
  fs::create_directory(unfinished);
  try {
    writer(unfinished);
    fs::rename(unfinished, whole);
  } catch (...) {
    io::remove_flat_folder(unfinished);
    throw;
  }
  io::sync_folder(io::parent_folder(whole));
}

}  // namespace

int run_convert(const Command& c) {
  check_out(c.out);
  const Source source = read_source(c.file, c.part, c.heads);
  for (const std::string& sentence : source.assumed) train::report("{}\n", sentence);
  for (const std::string& name : source.weights.left_out)
    train::report("{} is left out: the model does not need it\n", train::for_output(name));
  write_folder(c.out, c.to == "timm"    ? to_timm(source)
                      : c.to == "hf"    ? to_hf(source)
                      : c.to == "llm.c" ? to_llm_c(source)
                                        : to_reprise(source));
  int64_t numbers = 0;
  for (const auto& [name, tensor] : source.weights.tensors) numbers += tensor.numel();
  train::report("{} of {} tensors, {:.2f} M numbers, for {}: {}\n", name_of(source.weights.kind.architecture),
                source.weights.tensors.size(), double(numbers) / 1e6, c.to, train::for_output(c.out));
  return 0;
}

}  // namespace reprise::apps::convert
