// Saying where two runs parted.
#include <algorithm>
#include <string_view>

#include "reprise/autograd/recompute/replay/provenance.h"

namespace reprise::recompute {

using reprise::detail::join;

std::string Provenance::difference(const std::string& what, uint64_t first, const Provenance& replay,
                                   uint64_t now) const {
  std::string where = what;
  for (;;) {
    const Step *was = maker(first), *is = replay.maker(now);
    if (!was || !is || std::string_view(was->name) != is->name ||
        was->arguments.size() != is->arguments.size())
      break;
    std::string both = join(place_of(*was), ", which is ", replay.place_of(*is), " of the replay,");
    if (was->attributes.values != is->attributes.values)
      return join(both, " was given other numbers, sizes or flags then");
    auto same = [](const Argument& x, const Argument& y) { return x.origin == y.origin; };
    auto [a, b] = std::mismatch(was->arguments.begin(), was->arguments.end(), is->arguments.begin(), same);
    if (a == was->arguments.end()) {
      bool drew = was->attributes.draws != is->attributes.draws || was->draws != is->draws;
      return join(both, drew ? " drew other random numbers" : " did something else inside");
    }
    where = join("argument ", a - was->arguments.begin(), " of ", place_of(*was));
    first = a->origin;
    now = b->origin;
  }
  auto source = sources_.find(first), other = replay.sources_.find(now);
  if (source != sources_.end() && other != replay.sources_.end())
    if (std::string text = source_difference(source->second, other->second); !text.empty())
      return where + text;
  return join(where, " was ", origin_text(first), ", in the replay it is ", replay.origin_text(now));
}

std::string Provenance::source_difference(const Source& first, const Source& now) const {
  using Kind = Source::Kind;
  if (first.kind == Kind::fresh && now.kind == Kind::fresh)
    return join(" was ", text_of(first.form), " made by hand, with other values in the replay");
  if (first.kind != Kind::captured || now.kind != Kind::captured) return {};
  if (first.id == now.id && first.form.shape == now.form.shape)
    return join(" was ", text_of(first.form),
                " that fn captured, which was changed in place before the replay");
  return join(" was ", text_of(first.form), " that fn captured, in the replay it is another tensor, ",
              text_of(now.form), ": set_data, or one assigned in its place");
}

const Provenance::Step* Provenance::maker(uint64_t origin) const {
  auto found = makers_.find(origin);
  return found == makers_.end() ? nullptr : &steps_[found->second];
}

std::string Provenance::place_of(const Step& step) const {
  std::string text = join("operation ", &step - steps_.data(), ", ", step.name, '(');
  for (const Argument& x : step.arguments)
    text += (&x == step.arguments.data() ? "" : ", ") + text_of(x.form);
  return text + ')';
}

std::string Provenance::origin_text(uint64_t origin) const {
  if (const Step* step = maker(origin)) return "the result of " + place_of(*step);
  auto source = sources_.find(origin);
  if (source == sources_.end()) return "nothing that is known";
  const auto& [kind, id, form] = source->second;
  if (kind == Source::Kind::input) return join("input ", id, ", ", text_of(form));
  return text_of(form) + (kind == Source::Kind::captured ? " that fn captured" : " made by hand");
}

std::string Provenance::text_of(const Form& form) { return join(form.dtype, form.shape); }

}  // namespace reprise::recompute
