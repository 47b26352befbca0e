#include "reprise/io/text/tokenizer_json.h"

#include "reprise/core/error.h"
#include "reprise/io/text/word_splitter.h"

namespace reprise::io {
namespace {

// One step that splits text, as the file names it.
struct Step {
  std::string type{}, pattern{}, behavior{}, replacement{}, scheme{"always"};
  bool splits = true, inverts = false, individual = false, uses_regex = true, adds_space = false,
       is_literal = false;
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& path) : text_(text), path_(path), json_(text, path) {}

  TokenizerJson read() {
    json_.object([&](const std::string& key) {
      if (key == "normalizer")
        read_normalizer();
      else if (key == "added_tokens")
        found_.added = part();
      else if (key == "pre_tokenizer" && is_object())
        read_pre_tokenizer();
      else if (key == "post_processor" && is_object())
        read_post_processor();
      else if (key == "model")
        read_model();
      else
        json_.skip();
    });
    json_.end();
    if (falls_back_ || replaces_spaces_ || is_metaspace())
      take_sentence_piece();
    else
      take_byte_level();
    check(!found_.vocab.text.empty() && !found_.merges.text.empty(), "bpe: ", path_,
          ": its model has no vocab and merges");
    return std::move(found_);
  }

 private:
  void expect(bool holds, const char* what) const {
    if (!holds)
      fail("bpe: ", path_, ": ", what,
           ": no such tokenizer here, only BPE of bytes as GPT-2's and of characters as Llama 2's");
  }
  bool is_object() { return json_.peek() == JsonReader::Kind::object; }
  bool is_null() {
    const bool null = json_.peek() == JsonReader::Kind::null;
    json_.skip();
    return null;
  }
  JsonPart part() {
    const size_t begin = json_.offset();
    json_.skip();
    return {std::string_view(text_).substr(begin, json_.offset() - begin), begin};
  }

  // NFC; or what makes U+2581 of spaces, and puts one before the text.
  void read_normalizer() {
    if (!is_object()) return expect(is_null(), "a normalizer");
    std::string type, prepended, replaced, content;
    json_.object([&](const std::string& name) {
      if (name == "type")
        type = json_.string();
      else if (name == "normalizers")
        json_.array([&] { read_normalizer(); });
      else if (name == "prepend")
        prepended = json_.string();
      else if (name == "content")
        content = json_.string();
      else if (name == "pattern")
        json_.object([&](const std::string& kind) {
          expect(kind == "String", "a normalizer that replaces by a pattern");
          replaced = json_.string();
        });
      else
        json_.skip();
    });
    if (type == "NFC")
      found_.normalizes = true;
    else if (type == "Prepend" && prepended == space_mark)
      found_.prepends = TokenizerJson::Prepends::always;
    else if (type == "Replace" && replaced == " " && content == space_mark)
      replaces_spaces_ = true;
    else
      expect(type == "Sequence", "a normalizer that is not NFC, nor SentencePiece's");
  }

  void read_model() {
    json_.object([&](const std::string& name) {
      if (name == "type")
        expect(json_.string() == "BPE", "a model that is no BPE");
      else if (name == "vocab")
        found_.vocab = part();
      else if (name == "merges")
        found_.merges = part();
      else if (name == "dropout")
        expect(is_null(), "dropout");
      else if (name == "unk_token" && json_.peek() == JsonReader::Kind::string)
        has_unknown_token_ = !json_.string().empty();
      else if (name == "byte_fallback")
        falls_back_ = json_.boolean();
      else if (name == "continuing_subword_prefix" || name == "end_of_word_suffix")
        expect(json_.peek() == JsonReader::Kind::string ? json_.string().empty() : is_null(),
               "a prefix or suffix of parts of words");
      else if (name == "ignore_merges")
        found_.ignores_merges = json_.boolean();
      else
        json_.skip();
    });
  }

  // One step, or a list of them.
  void read_pre_tokenizer() {
    Step step;
    bool is_list = false;
    json_.object([&](const std::string& name) {
      if (name == "pretokenizers") {
        is_list = true;
        json_.array([&] {
          Step one;
          json_.object([&](const std::string& member) { read_step_member(member, one); });
          steps_.push_back(one);
        });
      } else {
        read_step_member(name, step);
      }
    });
    if (!is_list) steps_.push_back(step);
  }

  void read_step_member(const std::string& name, Step& step) {
    if (name == "type")
      step.type = json_.string();
    else if (name == "pattern")
      json_.object([&](const std::string& kind) {
        step.is_literal = kind != "Regex";
        step.pattern = json_.string();
      });
    else if (name == "behavior")
      step.behavior = json_.string();
    else if (name == "invert")
      step.inverts = json_.boolean();
    else if (name == "individual_digits")
      step.individual = json_.boolean();
    else if (name == "use_regex")
      step.uses_regex = json_.boolean();
    else if (name == "add_prefix_space")
      step.adds_space = json_.boolean();
    else if (name == "replacement")
      step.replacement = json_.string();
    else if (name == "prepend_scheme")
      step.scheme = json_.string();
    else if (name == "split")
      step.splits = json_.boolean();
    else
      json_.skip();
  }

  // Of "single" the first entry, of the first processor that has one.
  void read_post_processor() {
    json_.object([&](const std::string& name) {
      if (name == "processors") {
        json_.array([&] { read_post_processor(); });
      } else if (name == "single") {
        bool is_first = true;
        json_.array([&] {
          json_.object([&](const std::string& kind) {
            if (kind == "SpecialToken" && is_first)
              json_.object([&](const std::string& member) {
                if (member == "id")
                  found_.first_token = json_.string();
                else
                  json_.skip();
              });
            else
              json_.skip();
          });
          is_first = false;
        });
      } else {
        json_.skip();
      }
    });
  }

  bool is_metaspace() const { return steps_.size() == 1 && steps_[0].type == "Metaspace"; }

  void take_sentence_piece() {
    using Prepends = TokenizerJson::Prepends;
    found_.kind = TokenizerJson::Kind::sentence_piece;
    found_.spelling = Spelling::literal;
    expect(falls_back_, "a BPE of characters without byte_fallback");
    expect(!found_.normalizes && !found_.ignores_merges, "NFC or ignore_merges in a BPE of characters");
    expect(replaces_spaces_ || is_metaspace(), "byte_fallback where spaces do not become U+2581");
    expect(!replaces_spaces_ || !is_metaspace(), "spaces that become U+2581 twice");
    if (!is_metaspace()) return expect(steps_.empty(), "a pre_tokenizer in a BPE of characters");
    const Step& step = steps_[0];
    expect(step.replacement == space_mark && !step.splits, "a Metaspace that splits, or has another mark");
    found_.prepends = step.scheme == "never" ? Prepends::nothing : Prepends::unless_there;
  }

  void take_byte_level() {
    expect(!has_unknown_token_, "an unk_token in a BPE of bytes");
    expect(found_.prepends == TokenizerJson::Prepends::nothing, "a normalizer that prepends");
    bool is_byte_level = false;
    for (const Step& step : steps_) {
      expect(!is_byte_level, "a pre_tokenizer behind ByteLevel");
      if (step.type == "ByteLevel") {
        is_byte_level = true;
        expect(!step.adds_space, "add_prefix_space");
        if (step.uses_regex) found_.patterns.emplace_back(gpt2_words);
      } else if (step.type == "Digits") {
        found_.patterns.emplace_back(step.individual ? "\\p{N}" : "\\p{N}+");
      } else {
        expect(step.type == "Split" && !step.is_literal && step.behavior == "Isolated" && !step.inverts,
               "a pre_tokenizer that is not ByteLevel, Digits or Split by an isolated Regex");
        found_.patterns.push_back(step.pattern);
      }
    }
    expect(is_byte_level, "a pre_tokenizer that is not ByteLevel");
    expect(!found_.patterns.empty(), "a pre_tokenizer without its pattern");
    found_.is_gpt2 =
        steps_.size() == 1 && !found_.normalizes && !found_.ignores_merges && found_.first_token.empty();
  }

  const std::string& text_;
  const std::string& path_;
  JsonReader json_;
  TokenizerJson found_;
  std::vector<Step> steps_;
  bool has_unknown_token_ = false, falls_back_ = false, replaces_spaces_ = false;
};

}  // namespace

TokenizerJson read_tokenizer_json(const std::string& text, const std::string& path) {
  return Reader(text, path).read();
}

}  // namespace reprise::io
